"""A `Link` over TCP, between processes of one host or several.

It uses plain sockets and not gloo's send and receive. Gloo cannot cancel an operation, and its group cannot be closed
while one is under way (comm/groups/gloo.py); it reports a death by an error of any wording, or not at all; it counts no
bytes. A socket reports at once that the process at its other end is gone, every wait here has a deadline, nothing is
left to wait for at the end, and the kernel tells how many bytes were sent. Each rank is connected to each, because the
rank that dies is often not the one that is waited for.

Numbers travel as they lie in memory: all hosts have the same byte order. A host that loses power closes no socket, so
its ranks fall silent. A child that a rank has forked holds the connection open after the rank's death until it ends
itself, which the launcher sees to.
"""

import time
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gmi_drl.comm.links.framing import DATA
from gmi_drl.comm.links.handshake import RankAddresses, connect_ranks
from gmi_drl.comm.links.liveness import LOOK_MS, Awaited, LivenessMonitor
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.collective_calls import mismatch
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import UsageError

_NATIVE = frozenset((torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8))
"""Types that Python knows, too: their memory is given by fewer calls."""


class SocketLink:
    """A `Link` that is also a barrier.

    Args:
        member: This process.
        ranks: The addresses of all ranks.
        listener_fd: Where this rank listens; the caller closes it.

    Attributes:
        check: See `LivenessMonitor.check`; for waits on the same ranks by other means.

    Raises:
        PeerDiedError, PeerSilentError, UsageError: As `handshake.connect_ranks`.
    """

    def __init__(self, member: Membership, ranks: RankAddresses, listener_fd: int) -> None:
        self.rank = member.rank
        self.size = member.size
        self.device = torch.device("cpu")
        self.wait_s = 0.0
        self._member = member
        self._connections = connect_ranks(member, ranks, listener_fd)
        self._monitor = LivenessMonitor(member, self._connections)
        self.check = self._monitor.check

    @property
    def sent(self) -> dict[tuple[int, int], int]:
        """Bytes of vectors that sockets have taken, without other frames. See `Link`."""
        return {(self.rank, peer): connection.sent for peer, connection in self._connections.items() if connection.sent}

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
        """Send a vector, of any dtype, to each of some ranks, and receive one from each of others."""
        several_sends, several_receives = ({peer: (one,) for peer, one in each.items()} for each in (sends, receives))
        self.move_several(several_sends, several_receives)

    def move_several(self, sends: Mapping[int, Sequence[Tensor]], receives: Mapping[int, Sequence[Tensor]]) -> None:
        """As `move`, several vectors to each and from each: of large ones nothing is copied here."""
        connections = self._connections
        for peer, vectors in receives.items():
            connections[peer].receive_data(*[_bytes_of(vector) for vector in vectors if vector.numel()])
        for peer, vectors in sends.items():
            if frames := [(DATA, (_bytes_of(vector),)) for vector in vectors if vector.numel()]:
                connections[peer].send_together(frames)
        self._wait(
            lambda: {
                *[peer for peer in receives if connections[peer].is_receiving],
                *[peer for peer in sends if connections[peer].is_sending],
            }
        )

    def sync(self, call: int) -> None:
        """Wait until all ranks make the same collective call (`memory.collective_calls.call_code`).

        Raises:
            UsageError: If another rank makes another call. All ranks raise it, in the same words.
        """
        for connection in self._connections.values():
            connection.send_call(call)
        self._wait(lambda: {peer for peer, connection in self._connections.items() if not connection.calls})
        calls = {peer: connection.calls.popleft() for peer, connection in self._connections.items()} | {self.rank: call}
        if mistake := mismatch([calls[peer] for peer in range(self.size)], self._member):
            raise UsageError(mistake)

    def close(self) -> None:
        """Close all connections."""
        self._monitor.close()
        for connection in self._connections.values():
            connection.close()

    def _wait(self, awaited: Awaited) -> None:
        started, waiting = time.perf_counter(), WaitClock()
        try:
            while awaited():
                self._monitor.check(awaited, waiting, LOOK_MS)
        finally:
            self.wait_s += time.perf_counter() - started


def _bytes_of(vector: Tensor) -> memoryview:
    """The memory of a vector of any dtype, contiguous."""
    if vector.dtype in _NATIVE and not vector.requires_grad:
        return vector.numpy().data.cast("B")
    return vector.detach().view(-1).view(torch.uint8).numpy().data
