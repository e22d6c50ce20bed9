"""Who of the ranks at the other ends of the wires is there, silent or lost, while this one waits."""

import math
import time
from collections.abc import Callable, Iterable
from select import POLLIN, POLLOUT, poll
from typing import NoReturn

from gmi_drl.comm.links.framing import ASK, HERE, LOST, RENEW, FramedConnection
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import PeerDiedError, PeerSilentError

LOOK_MS = 100
_ANSWER_S = 3.0  # who is asked and has not answered by then does not wait; who waits may be short of a core
_LAST_WORDS_S = 1.0
_RENEW_S = 0.25

Awaited = Callable[[], set[int]]
"""The ranks that something still depends on; none, and it is done."""


class LivenessMonitor:
    """Moves the data under way on all connections, and checks whether waiting for other ranks still makes sense.

    A wait starts again whenever data moves, or another rank sends a keepalive because it waits for a slow process
    elsewhere (`membership.Keepalives`). A rank that has waited for `hang_s` pings all others. Ranks that wait answer,
    with the ranks that they wait for: so in a chain of ranks that wait for each other the error names the one that
    does not answer. If all wait and data moved between two pings, it pings again. A rank that gives up sends its
    error to all others, which raise the same.

    Args:
        member: This process.
        wires: The connections to all other ranks, by rank.
    """

    def __init__(self, member: Membership, wires: dict[int, FramedConnection]) -> None:
        self._member, self._wires, self._hang_s = member, wires, member.hang_s
        self._own = member.name(member.rank)
        self._by_fd = {wire.fileno(): peer for peer, wire in wires.items()}
        self._poll = poll()
        for wire in wires.values():
            self._poll.register(wire, POLLIN)
        self._awaited: Awaited = set
        self._renewed = 0  # how often others have told that they are not silent
        self._told_s = -math.inf  # when this rank told so last
        member.keepalives.send.append(self._renew)
        self._lost: PeerDiedError | PeerSilentError | None = None
        self._asked: WaitClock | None = None  # the waiting in which all were asked
        self._answers: dict[int, tuple[int, set[int]]] = {}  # the bytes that each has moved, and for whom it waits
        self._moved = -1  # what all had moved when they answered last

    def check(self, awaited: Awaited, waiting: WaitClock, nap_ms: int = 0) -> None:
        """Look once.

        Args:
            awaited: For whom this rank waits; read again after the look.
            waiting: Begun when the waiting began.
            nap_ms: Milliseconds to sleep meanwhile; whatever comes ends the sleep.

        Raises:
            PeerDiedError, PeerSilentError: If it makes no sense to go on, as `Group` says.
        """
        self._awaited = awaited
        renewed = self._renewed
        self._pump(nap_ms)
        if waiting.restart_on_change((self.moved, self._renewed)):
            self._asked = None
        if renewed != self._renewed:
            for heard in self._member.keepalives.received:
                heard()
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
        """Bytes of numbers that this rank has sent and received."""
        return sum(wire.sent + wire.received for wire in self._wires.values())

    def _renew(self) -> None:
        """Tell the others that this rank is not silent: not each time, since they may read it late."""
        now_s = time.monotonic()
        if now_s - self._told_s > _RENEW_S:
            self._told_s = now_s
            self._tell_all(RENEW)

    def close(self) -> None:
        """Look no more."""
        self._poll = poll()
        self._awaited = set

    def _pump(self, nap_ms: int) -> None:
        for wire in self._wires.values():
            if wire.is_open:
                self._poll.modify(wire, POLLIN | POLLOUT * wire.is_sending)
        for fd, _ in self._poll.poll(nap_ms):
            peer = self._by_fd[fd]
            wire = self._wires[peer]
            wire.flush()
            for kind, said in wire.read():
                self._hear(peer, kind, said.decode())
            if not wire.is_open:
                self._poll.unregister(fd)

    def _hear(self, peer: int, kind: int, said: str) -> None:
        if kind == ASK:
            self._wires[peer].tell(HERE, " ".join(map(str, [self.moved, *self._awaited()])).encode())
        elif kind == HERE:
            moved, *awaited = map(int, said.split())
            self._answers[peer] = moved, set(awaited)
        elif kind == RENEW:
            self._renewed += 1
        elif kind == LOST and self._lost is None:
            name, _, text = said.partition("\n")
            self._lost = PeerDiedError(text) if name == PeerDiedError.__name__ else PeerSilentError(text)

    def _died(self, late: set[int]) -> PeerDiedError | None:
        dead = [peer for peer in late if not self._wires[peer].is_open]
        if not dead:
            return None
        return PeerDiedError(
            f"{self._named(dead)} ended, or left the group, while {self._own} waited for it: its log says why"
        )

    def _fell_silent(self, late: set[int], waiting: WaitClock) -> PeerSilentError | None:
        waited_s = waiting.look()
        if waited_s > self._hang_s and self._asked is not waiting:
            self._asked = waiting
            self._answers.clear()
            self._tell_all(ASK)
        if waited_s <= self._hang_s + _ANSWER_S:
            return None
        if silent := self._silent(late):
            text = f"{self._named(silent)} lives but has not arrived for {self._hang_s:g} s (hang_s)"
            return PeerSilentError(f"{text} while {self._own} waited: see what it does, or raise hang_s")
        moved, self._moved = self._moved, sum(moved for moved, _ in self._answers.values())
        if moved != self._moved:  # others get on with something long: ask them again
            self._asked, waiting.seconds = None, self._hang_s
            return None
        text = f"{self._own} waited {self._hang_s:g} s (hang_s) for {self._named(late)}, and all wait for others"
        return PeerSilentError(f"{text}: do all make the same calls in the same order?")

    def _silent(self, late: set[int]) -> list[int]:
        """Those who do not answer, of the ranks that this one waits for, the ranks that these wait for, and so on."""
        seen = set(late)
        rows = list(seen)
        for peer in rows:
            _, awaited = self._answers.get(peer, (0, set()))
            new = awaited - seen - {self._member.rank}
            seen |= new
            rows += new
        return [peer for peer in rows if peer not in self._answers]

    def _give_up(self, error: PeerDiedError | PeerSilentError) -> NoReturn:
        """Let all others know why before this rank leaves: they may wait for it, not for the one that is lost."""
        self._tell_all(LOST, f"{type(error).__name__}\n{error}".encode())
        waiting = WaitClock()
        while self._has_words_left() and waiting.look() < _LAST_WORDS_S:
            self._pump(LOOK_MS)
        raise error

    def _tell_all(self, kind: int, said: bytes = b"") -> None:
        for wire in self._wires.values():
            if wire.is_open:
                wire.tell(kind, said)

    def _has_words_left(self) -> bool:
        return any(wire.is_open and wire.is_sending for wire in self._wires.values())

    def _named(self, peers: Iterable[int]) -> str:
        return ", ".join(f"{self._member.name(peer)} (process {self._wires[peer].pid})" for peer in sorted(peers))
