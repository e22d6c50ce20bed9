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
    """The ranks of one device, counted from 0 in the mapping's order, and their shared memory.

    They meet in shared memory, but the link checks the peers: a rank that waits for one of its device may in truth wait
    for a rank of another device.

    Args:
        link: To all ranks of the group.
        member: This process in the group.
        fd: The segment of this device's ranks.
    """

    def __init__(self, link: SocketLink, member: Membership, fd: int) -> None:
        ranks = member.local_ranks
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
    """A rank table whose peers the link checks."""

    def __init__(self, link: SocketLink, ranks: Sequence[int], rows: Rows, own: Membership) -> None:
        self._link, self._ranks = link, ranks
        super().__init__(rows.memory, LINE_BYTES, own)

    def check(self, waiting: WaitClock, nap_ms: int = 0) -> None:
        """Look once; see `RankTable` and `SocketLink`."""
        self._link.check(lambda: {self._ranks[peer] for peer in self.late()}, waiting, nap_ms)
