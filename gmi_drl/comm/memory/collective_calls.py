"""What ranks come together for, as a number that they can compare."""

from collections.abc import Sequence

from gmi_drl.comm.membership import Membership

CALL_BITS = 48
"""A call is below 2 to the power of this."""

BARRIER, GATHER, REDUCE, REDUCE_SLOT, REDUCE_STAGED, OPEN = range(6)
"""Kinds of calls. Where all vectors are treated alike, each is a `REDUCE`."""

_KINDS = 8
_DOES = (
    "waits at a barrier",
    "gathers {} numbers",
    "reduces {} numbers",
    "reduces {} numbers in its slot",
    "reduces {} numbers beside its bucket",
    "opens the group of plan {:08x}",
)


def call_code(kind: int, numel: int = 0) -> int:
    """What a rank comes for, as one number below 2^48: a kind such as `REDUCE` and how many numbers."""
    return numel * _KINDS + kind


def mismatch(calls: Sequence[int], member: Membership) -> str | None:
    """Who has come for something else, in the same words on every rank; None if all have come for the same.

    Args:
        calls: Of all ranks, in rank order.
        member: Who knows their names.
    """
    other = next((rank for rank, call in enumerate(calls) if call != calls[0]), None)
    if other is None:
        return None
    first, second = (f"{member.name(rank)} {_said(calls[rank])}" for rank in (0, other))
    return f"{first}, {second}: all ranks must make the same calls in the same order"


def _said(call: int) -> str:
    numel, kind = divmod(call, _KINDS)
    return _DOES[kind].format(numel)
