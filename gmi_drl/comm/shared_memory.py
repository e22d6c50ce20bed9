"""Reduction in shared memory: each rank sums its part of all vectors (MPR, paper section 4.1, on one host)."""

import platform
import time

import torch
from torch import Tensor

from gmi_drl.comm.reduction import check_bucket, check_first_bucket, check_values
from gmi_drl.comm.segment import (
    BARRIER,
    GATHER,
    LINE_BYTES,
    REDUCE_BUCKET,
    REDUCE_OTHER,
    STAGING_BYTES,
    Peers,
    call_word,
    map_segment,
)
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.hardware import STORES_IN_ORDER

_LINE_FLOATS = LINE_BYTES // 4
_BLOCK = 64 * 1024  # floats summed at a time, so that the sum is still in the cache when it is written back
_STAGED_FLOATS = STAGING_BYTES // 4
_STAGED_DOUBLES = STAGING_BYTES // 8
_NOTHING = [slice(0, 0)]  # a vector without numbers is one piece: for it, too, all ranks come together


def shm_supported() -> bool:
    """Whether this processor keeps the order of stores, on which the barrier relies (x86-64)."""
    return platform.machine() in STORES_IN_ORDER


def shard_bounds(numel: int, size: int, rank: int) -> tuple[int, int]:
    """First and last + 1 element of the part that `rank` sums; all but the last of a vector are whole cache lines."""
    lines = -(-numel // _LINE_FLOATS)
    step = -(-lines // size) * _LINE_FLOATS
    return min(rank * step, numel), min((rank + 1) * step, numel)


class SharedMemoryReduction:
    """A `Reduction` over a segment of `create_segment`: barrier, sum of the own shard into every slot, barrier.

    Args:
        rank: This process.
        size: Processes in the group.
        fd: The segment's descriptor, inherited from the parent; it stays the caller's to close.
        hang_s: Seconds after which a peer that lives counts as silent.

    Raises:
        MachineError: On a processor other than x86-64.
        UsageError: If the descriptor is no segment for `size` ranks.
        PeerSilentError: If the others have not opened theirs within `hang_s`.
    """

    def __init__(self, rank: int, size: int, fd: int, hang_s: float) -> None:
        if not shm_supported():
            raise MachineError(f"MPR-shm needs x86-64 memory ordering, this is {platform.machine()}: use MPR-gloo")
        self.rank = rank
        self.size = size
        self.wait_s = 0.0
        memory, slot_bytes = map_segment(fd, size)
        data = torch.frombuffer(memory, dtype=torch.uint8)[LINE_BYTES * (1 + size) :].view(
            size, slot_bytes + STAGING_BYTES
        )
        self._slots = data[:, :slot_bytes].view(torch.float32)
        self._staging = data[:, slot_bytes:].view(torch.float32)
        self._bucket: Tensor | None = None
        self._bucket_blocks: list[list[Tensor]] = []
        self._bucket_call = BARRIER
        self._staged_blocks: dict[int, list[list[Tensor]]] = {}  # by length: making views takes as long as summing them
        self._peers = Peers(memory, LINE_BYTES, rank, size, hang_s)

    def bucket(self, numel: int) -> Tensor:
        """A zeroed vector in this rank's slot; see `Reduction`."""
        check_first_bucket(self._bucket, numel)
        if numel > self._slots.shape[1]:
            raise UsageError(
                f"a bucket of {numel} numbers does not fit into a slot of {self._slots.shape[1]}: enlarge slot_bytes"
            )
        self._bucket = self._slots[self.rank, :numel].zero_()
        self._bucket_blocks = self._blocks(self._slots, numel)
        self._bucket_call = call_word(REDUCE_BUCKET, numel)
        return self._bucket

    def reduce(self, bucket: Tensor) -> None:
        """Sum in place over the group; see `Reduction`."""
        check_bucket(bucket)
        if (
            self._bucket is not None
            and bucket.data_ptr() == self._bucket.data_ptr()
            and bucket.numel() == self._bucket.numel()
        ):
            self._sum(self._bucket_blocks, self._bucket_call)
            return
        call = call_word(REDUCE_OTHER, bucket.numel())
        for place in _pieces(0, bucket.numel(), _STAGED_FLOATS) or _NOTHING:
            part = bucket.detach()[place]
            mine = self._staging[self.rank, : part.numel()]
            mine.copy_(part)
            if part.numel() not in self._staged_blocks:
                self._staged_blocks[part.numel()] = self._blocks(self._staging, part.numel())
            self._sum(self._staged_blocks[part.numel()], call)
            part.copy_(mine)

    def gather(self, values: Tensor) -> Tensor:
        """The vectors of all ranks; see `Reduction`."""
        check_values(values)
        staging = self._staging.view(torch.float64)
        everyone = torch.empty(self.size, values.numel(), dtype=torch.float64)
        call = call_word(GATHER, values.numel())
        for place in _pieces(0, values.numel(), _STAGED_DOUBLES) or _NOTHING:
            part = values.detach()[place]
            staging[self.rank, : part.numel()] = part
            self._meet(call)
            everyone[:, place] = staging[:, : part.numel()]
            self._meet(call)
        return everyone

    def barrier(self) -> None:
        """Wait for all; see `Reduction`."""
        self._meet(BARRIER)

    def close(self) -> None:
        """Stop watching the peers; see `Reduction`."""
        self._peers.close()

    def _meet(self, call: int) -> None:
        started = time.perf_counter()
        self._peers.meet(call)
        self.wait_s += time.perf_counter() - started

    def _sum(self, blocks: list[list[Tensor]], call: int) -> None:
        self._meet(call)
        for first, *others in blocks:
            for other in others:  # always from rank 0 up: the same bits whoever sums
                first.add_(other)
            for other in others:
                other.copy_(first)
        self._meet(call)

    def _blocks(self, rows: Tensor, numel: int) -> list[list[Tensor]]:
        """This rank's shard of the first `numel` columns, in blocks: for each the pieces of all ranks."""
        shard = shard_bounds(numel, self.size, self.rank)
        return [[row[place] for row in rows] for place in _pieces(*shard, _BLOCK)]


def _pieces(first: int, last: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, last)) for start in range(first, last, step)]
