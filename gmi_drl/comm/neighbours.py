"""The ranks of one device, or host: their shared memory, and what they do in it for a reduction between devices."""

import mmap
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gmi_drl.comm.mpr_shm import SharedMemoryReduction, shard_bounds
from gmi_drl.comm.shared_memory import SharedMemoryGroup, pieces
from gmi_drl.comm.sockets import SocketLink
from gmi_drl.memory.peers import Peers, Waiting
from gmi_drl.memory.segment import LINE_BYTES, STAGING_BYTES, first_slot, map_segment

_BLOCK = 64 * 1024  # floats summed at a time: the sum stays in the cache until the last has been added


class Neighbours(SharedMemoryGroup):
    """The ranks of one device, counted from 0 in the mapping's order, and their rows of shared memory.

    They wait for each other as any group with a segment does, but it is the link that looks after them meanwhile: who
    waits for a neighbour may wait in truth for a rank of another device.

    Args:
        link: To all ranks of the group.
        ranks: Those of this device.
        fd: Their segment's descriptor.
    """

    def __init__(self, link: SocketLink, ranks: Sequence[int], fd: int) -> None:
        self.rank = ranks.index(link.rank)
        self.size = len(ranks)
        self.wait_s = 0.0
        memory, slot_bytes = map_segment(fd, self.size)
        rows = torch.frombuffer(memory, dtype=torch.uint8)[first_slot(self.size) :].view(self.size, -1)
        self.slots = rows[:, :slot_bytes].view(torch.float32)
        self.staging = rows[:, slot_bytes : slot_bytes + STAGING_BYTES].view(torch.float32)
        self._slots_are_given = False
        self._peers = _LinkedPeers(link, ranks, memory)


class _LinkedPeers(Peers):
    """Peers that a link looks after."""

    def __init__(self, link: SocketLink, ranks: Sequence[int], memory: mmap.mmap) -> None:
        self._link, self._ranks = link, ranks
        super().__init__(memory, LINE_BYTES, ranks.index(link.rank), len(ranks), hang_s=float("inf"))

    def check(self, waiting: Waiting, nap_ms: int = 0) -> None:
        """Look once; see `Peers` and `SocketLink`."""
        self._link.look_after(lambda: {self._ranks[peer] for peer in self.late()}, waiting, nap_ms)


class ThroughRows(SharedMemoryReduction):
    """A vector's way into this rank's row of shared memory and back, as in MPR, with any sum in between.

    Args:
        neighbours: Whose rows.
        device: Where this rank's bucket shall be.
        sum_rows: Called by all ranks of the group, when each has `[n]` numbers in its own row of `[ranks, n]`, with the
            word for the call (`memory.peers.call_word`); leaves the group's sum there.
    """

    def __init__(
        self, neighbours: Neighbours, device: torch.device | str, sum_rows: Callable[[Tensor, int], None]
    ) -> None:
        super().__init__(neighbours, device)
        self._sum_rows = sum_rows

    def _sum(self, rows: Tensor, numel: int, call: int) -> None:
        self._sum_rows(rows[:, :numel], call)


def sum_shard(rows: Tensor, into: int, shards: int, shard: int) -> Tensor:
    """Add one of so many shards of all rows `[ranks, n]` up in one of the rows; returns it, `[about n / shards]`."""
    bounds = shard_bounds(rows.shape[1], shards, shard)
    for place in pieces(*bounds, _BLOCK):
        first = rows[into, place]
        for rank, row in enumerate(rows):
            if rank != into:
                first.add_(row[place])
    return rows[into, slice(*bounds)]
