"""Groups of processes of one host that share a segment of memory."""

import time

import torch
from torch import Tensor

from gmi_drl.comm.group import check_values
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.collective_calls import BARRIER, GATHER, call_code
from gmi_drl.comm.memory.rank_slots import Rows
from gmi_drl.comm.memory.rank_table import RankTable
from gmi_drl.comm.memory.segment import LINE_BYTES
from gmi_drl.comm.partition import in_pieces
from gmi_drl.comm.rendezvous import Rendezvous


class MemoryGroup:
    """A `Group` whose ranks have a slot and a staging area each in shared memory, and meet there.

    Args:
        rank: This process.
        rows: The shared memory of all ranks.
        peers: The table of the same ranks.

    Attributes:
        rows: The shared memory of all ranks.
    """

    def __init__(self, rank: int, rows: Rows, peers: RankTable) -> None:
        self.rank = rank
        self.size = len(rows.slots)
        self.rows = rows
        self.wait_s = 0.0
        self._peers = peers

    def gather(self, values: Tensor) -> Tensor:
        """The vectors of all ranks; see `Group`."""
        check_values(values)
        staging = self.rows.staging.view(torch.float64)
        everyone = torch.empty(self.size, values.numel(), dtype=torch.float64)
        call = call_code(GATHER, values.numel())
        for place in in_pieces(values.numel(), staging.shape[1]):
            part = values.detach()[place]
            staging[self.rank, : part.numel()] = part
            self.sync(call)
            everyone[:, place] = staging[:, : part.numel()]
            self.sync(call)
        return everyone

    def barrier(self) -> None:
        """Wait for all; see `Group`."""
        self.sync(BARRIER)

    def sync(self, call: int) -> None:
        """Wait until all ranks make the same call (`call_code`)."""
        started = time.perf_counter()
        self._peers.sync(call)
        self.wait_s += time.perf_counter() - started

    def close(self) -> None:
        """Stop watching the peers; see `Group`."""
        self._peers.close()


class SharedMemoryGroup(MemoryGroup):
    """All ranks of a host, on whatever devices, in one segment.

    Args:
        member: This process.
        rendezvous: With a segment for all ranks.

    Raises:
        UsageError: If the descriptor is no segment for this many ranks.
        PeerSilentError: If the others have not opened theirs within `hang_s`.
    """

    def __init__(self, member: Membership, rendezvous: Rendezvous) -> None:
        assert rendezvous.segment is not None
        rows = Rows(rendezvous.segment, member.size)
        super().__init__(member.rank, rows, RankTable(rows.memory, LINE_BYTES, member))
