"""Which of the connected ranks are alive, silent or lost, while this one waits."""

import math
import time
from collections.abc import Callable, Iterable
from select import POLLIN, POLLOUT, poll
from typing import NoReturn

from gmi_drl.comm.links.framing import FAILURE, KEEPALIVE, PING, PONG, FramedConnection
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import PeerDiedError, PeerSilentError

LOOK_MS = 100
_ANSWER_S = 3.0  # a rank that waits answers within this, even if it is short of a core
_FAREWELL_S = 1.0
_RENEW_S = 0.25

Awaited = Callable[[], set[int]]
"""The ranks for which something still waits; empty when it is done."""


class LivenessMonitor:
    """Moves the data under way on all connections, and checks whether waiting for other ranks still makes sense.

    A wait starts again whenever data moves, or another rank sends a keepalive because it waits for a slow process
    elsewhere (`membership.Keepalives`). A rank that has waited for `hang_s` pings all others. Ranks that wait answer,
    with the ranks that they wait for: so in a chain of ranks that wait for each other the error names the one that does
    not answer. If all wait and data moved between two pings, it pings again. A rank that gives up sends its error to
    all others, which raise the same.

    Args:
        member: This process.
        connections: To all other ranks, by rank.
    """

    def __init__(self, member: Membership, connections: dict[int, FramedConnection]) -> None:
        self._member, self._connections, self._hang_s = member, connections, member.hang_s
        self._own = member.name(member.rank)
        self._by_fd = {connection.fileno(): peer for peer, connection in connections.items()}
        self._poll, self._sending = poll(), set[int]()  # the connections that are asked whether they can be written
        for connection in connections.values():
            self._poll.register(connection, POLLIN)
        self._awaited: Awaited = set
        self._keepalives = 0  # received so far
        self._sent_s = -math.inf  # when this rank sent one last
        member.keepalives.send.append(self._renew)
        self._lost: PeerDiedError | PeerSilentError | None = None
        self._pinged: WaitClock | None = None  # the wait in which all were pinged
        self._answers: dict[
            int, tuple[int, set[int]]
        ] = {}  # by rank: the bytes that it has moved, and for whom it waits
        self._moved = -1  # by all, at their last answers

    def check(self, awaited: Awaited, waiting: WaitClock, nap_ms: int = 0) -> None:
        """Move the data under way, once, and check the ranks for which this one waits.

        Args:
            awaited: The ranks for which this rank waits; evaluated again after the look.
            waiting: A clock that was started with the wait.
            nap_ms: Milliseconds to sleep meanwhile; anything that arrives ends the sleep.

        Raises:
            PeerDiedError, PeerSilentError: If waiting makes no sense any more, as `Group` says.
        """
        self._awaited = awaited
        keepalives = self._keepalives
        self._pump(nap_ms)
        if waiting.restart_on_change((self.moved, self._keepalives)):
            self._pinged = None
        if keepalives != self._keepalives:
            for received in self._member.keepalives.received:
                received()
        late = awaited()
        if not late:
            return
        waiting.warn_if_slow(lambda: f"{self._own} waits for {self._named(late)}")
        if self._lost is None:
            self._lost = self._died(late) or self._fell_silent(late, waiting)
        if self._lost is not None:
            self._give_up(self._lost)

    @property
    def moved(self) -> int:
        """Bytes of data that this rank has sent and received."""
        return sum(connection.sent + connection.received for connection in self._connections.values())

    def _renew(self) -> None:
        """Send a keepalive to all other ranks, at most four a second, because they may read it late."""
        now_s = time.monotonic()
        if now_s - self._sent_s > _RENEW_S:
            self._sent_s = now_s
            self._send_all(KEEPALIVE)

    def close(self) -> None:
        """Look no more."""
        self._poll = poll()
        self._awaited = set

    def _pump(self, nap_ms: int) -> None:
        for fd, peer in self._by_fd.items():
            connection = self._connections[peer]
            if connection.is_sending != (fd in self._sending) and connection.is_open:
                self._poll.modify(fd, POLLIN | POLLOUT * connection.is_sending)
                self._sending ^= {fd}
        for fd, _ in self._poll.poll(nap_ms):
            peer = self._by_fd[fd]
            connection = self._connections[peer]
            connection.flush()
            for kind, payload in connection.read():
                self._handle(peer, kind, payload.decode())
            if not connection.is_open:
                self._poll.unregister(fd)

    def _handle(self, peer: int, kind: int, payload: str) -> None:
        if kind == PING:
            self._connections[peer].send_frame(PONG, " ".join(map(str, [self.moved, *self._awaited()])).encode())
        elif kind == PONG:
            moved, *awaited = map(int, payload.split())
            self._answers[peer] = moved, set(awaited)
        elif kind == KEEPALIVE:
            self._keepalives += 1
        elif kind == FAILURE and self._lost is None:
            name, _, text = payload.partition("\n")
            self._lost = PeerDiedError(text) if name == PeerDiedError.__name__ else PeerSilentError(text)

    def _died(self, late: set[int]) -> PeerDiedError | None:
        dead = [peer for peer in late if not self._connections[peer].is_open]
        if not dead:
            return None
        return PeerDiedError(
            f"{self._named(dead)} ended, or left the group, while {self._own} waited for it: its log says why"
        )

    def _fell_silent(self, late: set[int], waiting: WaitClock) -> PeerSilentError | None:
        waited_s = waiting.look()
        if waited_s > self._hang_s and self._pinged is not waiting:
            self._pinged = waiting
            self._answers.clear()
            self._send_all(PING)
        if waited_s <= self._hang_s + _ANSWER_S:
            return None
        if silent := self._silent(late):
            text = f"{self._named(silent)} lives but has not arrived for {self._hang_s:g} s (hang_s)"
            return PeerSilentError(f"{text} while {self._own} waited: see what it does, or raise hang_s")
        moved, self._moved = self._moved, sum(moved for moved, _ in self._answers.values())
        if moved != self._moved:  # others make progress with something long: ping them again
            self._pinged, waiting.seconds = None, self._hang_s
            return None
        text = f"{self._own} waited {self._hang_s:g} s (hang_s) for {self._named(late)}, and all wait for others"
        return PeerSilentError(f"{text}: do all make the same calls in the same order?")

    def _silent(self, late: set[int]) -> list[int]:
        """The ranks that did not answer, among those that this rank waits for, those that these wait for, and so on."""
        seen = set(late)
        rows = list(seen)
        for peer in rows:
            _, awaited = self._answers.get(peer, (0, set()))
            new = awaited - seen - {self._member.rank}
            seen |= new
            rows += new
        return [peer for peer in rows if peer not in self._answers]

    def _give_up(self, error: PeerDiedError | PeerSilentError) -> NoReturn:
        """Send the error to all others before this rank leaves, because they may wait for it. Then raise it."""
        self._send_all(FAILURE, f"{type(error).__name__}\n{error}".encode())
        waiting = WaitClock()
        while self._is_sending() and waiting.look() < _FAREWELL_S:
            self._pump(LOOK_MS)
        raise error

    def _send_all(self, kind: int, payload: bytes = b"") -> None:
        for connection in self._connections.values():
            if connection.is_open:
                connection.send_frame(kind, payload)

    def _is_sending(self) -> bool:
        return any(connection.is_open and connection.is_sending for connection in self._connections.values())

    def _named(self, peers: Iterable[int]) -> str:
        return ", ".join(f"{self._member.name(peer)} (process {self._connections[peer].pid})" for peer in sorted(peers))
