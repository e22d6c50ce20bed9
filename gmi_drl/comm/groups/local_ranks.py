"""The ranks of one device, or host, of a group that spans several."""

from collections.abc import Sequence
from dataclasses import replace

from gmi_drl.comm.groups.shared_memory import MemoryGroup
from gmi_drl.comm.links.sockets import SocketLink
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.rank_slots import Rows
from gmi_drl.comm.memory.rank_table import RankTable
from gmi_drl.comm.memory.segment import LINE_BYTES
from gmi_drl.comm.memory.wait_clock import WaitClock


class LocalRanks(MemoryGroup):
    """The ranks of one device, counted from 0 in the mapping's order, and their rows of shared memory.

    They wait for each other as any group with a segment does, but it is the link that looks after them meanwhile: who
    waits for a neighbour may wait in truth for a rank of another device.

    Args:
        link: To all ranks of the group.
        member: This process in the group.
        fd: The segment of this device's ranks.
    """

    def __init__(self, link: SocketLink, member: Membership, fd: int) -> None:
        ranks = member.neighbours
        own = replace(
            member,
            rank=ranks.index(member.rank),
            mapping=[list(range(len(ranks)))],
            names=tuple(map(member.name, ranks)),
            hang_s=float("inf"),
        )
        rows = Rows(fd, own.size)
        super().__init__(own.rank, rows, _LinkedPeers(link, ranks, rows, own))


class _LinkedPeers(RankTable):
    """Peers that a link looks after."""

    def __init__(self, link: SocketLink, ranks: Sequence[int], rows: Rows, own: Membership) -> None:
        self._link, self._ranks = link, ranks
        super().__init__(rows.memory, LINE_BYTES, own)

    def check(self, waiting: WaitClock, nap_ms: int = 0) -> None:
        """Look once; see `RankTable` and `SocketLink`."""
        self._link.check(lambda: {self._ranks[peer] for peer in self.late()}, waiting, nap_ms)
