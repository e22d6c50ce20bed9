"""A `Link` over TCP, between processes of one host or several.

Sockets of our own, not gloo's send and receive: gloo cannot give an operation up, and its group cannot even be closed
while one is under way (comm/groups/gloo.py); it tells of a death by an error of any wording, or not; it counts no
bytes. A socket says at once that the process at its other end is gone, every wait here has a deadline, nothing is left
to wait for at the end, and what was sent is what the kernel took. Each rank is connected to each, because the one whose
death matters is often not the one that is waited for.

Numbers travel as they lie in memory: all hosts have the same byte order. A host that loses its power closes nothing,
so its ranks are silent; and a child that a rank has forked holds the connection of one that died until it has ended,
for which the launcher sees.
"""

import time

from torch import Tensor

from gmi_drl.comm.links.handshake import RankAddresses, connect_ranks
from gmi_drl.comm.links.liveness import LOOK_MS, Awaited, LivenessMonitor
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.collective_calls import mismatch
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import UsageError


class SocketLink:
    """A `Link` whose ranks also meet over it.

    Args:
        member: This process.
        meeting: What all ranks were told.
        listener_fd: Where this one listens; it stays the caller's to close.

    Attributes:
        check: See `LivenessMonitor`; for those who wait for the same ranks elsewhere.

    Raises:
        PeerDiedError, PeerSilentError, UsageError: As `meeting.meet`.
    """

    def __init__(self, member: Membership, meeting: RankAddresses, listener_fd: int) -> None:
        self.rank = member.rank
        self.size = member.size
        self.wait_s = 0.0
        self._member = member
        self._wires = connect_ranks(member, meeting, listener_fd)
        self._lookout = LivenessMonitor(member, self._wires)
        self.check = self._lookout.check

    @property
    def sent(self) -> dict[tuple[int, int], int]:
        """Counted where the socket takes them; what ranks say beside their numbers is not in it. See `Link`."""
        return {(self.rank, peer): wire.sent for peer, wire in self._wires.items() if wire.sent}

    def send(self, vector: Tensor, to: int) -> None:
        """See `Link`."""
        self.move({to: vector}, {})

    def receive(self, vector: Tensor, source: int) -> None:
        """See `Link`."""
        self.move({}, {source: vector})

    def exchange(self, vector: Tensor, to: int, into: Tensor, source: int) -> None:
        """See `Link`."""
        self.move({to: vector}, {source: into})

    def move(self, sends: dict[int, Tensor], receives: dict[int, Tensor]) -> None:
        """Send a vector, of any type, to each of some ranks, and receive one from each of others, all at once."""
        sending = {peer: self._wires[peer] for peer, vector in sends.items() if vector.numel()}
        receiving = {peer: self._wires[peer] for peer, vector in receives.items() if vector.numel()}
        for peer, wire in receiving.items():
            wire.receive(_bytes_of(receives[peer]))
        for peer, wire in sending.items():
            wire.send(_bytes_of(sends[peer]))
        self._wait(
            lambda: (
                {peer for peer, wire in receiving.items() if wire.is_receiving}
                | {peer for peer, wire in sending.items() if wire.is_sending}
            )
        )

    def sync(self, call: int) -> None:
        """Wait for all, who must come for the same (`memory.calls.call_code`).

        Raises:
            UsageError: If another comes for something else. All ranks raise it, in the same words.
        """
        for wire in self._wires.values():
            wire.call(call)
        self._wait(lambda: {peer for peer, wire in self._wires.items() if not wire.calls})
        calls = {peer: wire.calls.popleft() for peer, wire in self._wires.items()} | {self.rank: call}
        if mistake := mismatch([calls[peer] for peer in range(self.size)], self._member):
            raise UsageError(mistake)

    def close(self) -> None:
        """Leave the others."""
        self._lookout.close()
        for wire in self._wires.values():
            wire.close()

    def _wait(self, awaited: Awaited) -> None:
        started, waiting = time.perf_counter(), WaitClock()
        try:
            while awaited():
                self._lookout.check(awaited, waiting, LOOK_MS)
        finally:
            self.wait_s += time.perf_counter() - started


def _bytes_of(vector: Tensor) -> memoryview:
    return vector.detach().numpy().data.cast("B")
