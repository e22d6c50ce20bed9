"""Reduction in shared memory: each rank sums its part of all vectors (MPR, paper section 4.1, on one host)."""

import torch
from torch import Tensor

from gmi_drl.comm.groups.shared_memory import MemoryGroup
from gmi_drl.comm.memory.rank_slots import RowMemory, Vectors
from gmi_drl.comm.partition import pieces, shard_bounds
from gmi_drl.comm.reductions.rows import RowReduction

_BLOCK = 64 * 1024  # floats summed at a time, so that the sum is still in the cache when it is written back
_LENGTHS = 64  # of which views are kept: a training has a few

Blocks = list[list[Tensor]]


class SharedMemoryReduction(RowReduction):
    """Barrier; each rank sums its shard of all rows and writes the sum into every row; barrier. See `RowReduction`.

    Args:
        group: The ranks and their segment.
        device: Where this rank's bucket shall be.
        rows: The memory in which they reduce, if it is not the segment.
    """

    group: MemoryGroup
    block = _BLOCK

    def __init__(self, group: MemoryGroup, device: torch.device | str = "cpu", rows: RowMemory | None = None) -> None:
        super().__init__(group, rows or group.rows, group.rank, device)
        self._blocks: dict[tuple[int, int], Blocks] = {}  # making views takes as long as summing them

    def sum_rows(self, rows: Vectors, numel: int, call: int) -> None:
        """See `RowReduction`."""
        key = id(rows), numel
        if key not in self._blocks:
            if len(self._blocks) >= _LENGTHS:
                self._blocks.clear()
            self._blocks[key] = self._shard_of(rows, numel)
        self.sync(call)
        for first, *others in self._blocks[key]:
            for other in others:  # always from rank 0 up, so that the bits do not depend on who sums
                first.add_(other)
            self.spread(first, others)
        self.sync(call)

    def sync(self, call: int) -> None:
        """Wait until all ranks make this call and are done with their earlier work in the rows."""
        self.group.sync(call)

    def spread(self, vector: Tensor, others: list[Tensor]) -> None:
        """Copy a vector into all others."""
        for other in others:
            other.copy_(vector)

    def _shard_of(self, rows: Vectors, numel: int) -> Blocks:
        """This rank's shard of the first `numel` columns, in blocks: for each block the pieces of all ranks."""
        shard = shard_bounds(numel, self.group.size, self.group.rank)
        return [[row[place] for row in rows] for place in pieces(*shard, self.block)]
