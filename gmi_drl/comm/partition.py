"""Parts of a vector: the shards of ranks, and the pieces that pass through a small buffer."""

from gmi_drl.comm.memory.segment import LINE_BYTES

_LINE_FLOATS = LINE_BYTES // 4


def shard_bounds(numel: int, size: int, rank: int) -> tuple[int, int]:
    """First and last + 1 element of the shard that `rank` sums. All but a vector's last shard are whole cache lines."""
    lines = -(-numel // _LINE_FLOATS)
    step = -(-lines // size) * _LINE_FLOATS
    return min(rank * step, numel), min((rank + 1) * step, numel)


def pieces(first: int, last: int, step: int) -> list[slice]:
    """The range in consecutive parts of at most `step`."""
    return [slice(start, min(start + step, last)) for start in range(first, last, step)]


def in_pieces(numel: int, step: int) -> list[slice]:
    """A whole vector in consecutive parts of at most `step`. An empty one is one piece: all ranks meet for it, too."""
    return pieces(0, numel, step) or [slice(0, 0)]
