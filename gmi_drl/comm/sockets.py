"""A `Link` over TCP, between processes of one host or several, which also tells who is there, silent or lost.

Sockets of our own, not gloo's send and receive: gloo cannot give an operation up, and its group cannot even be closed
while one is under way (comm/gloo.py); it tells of a death by an error of any wording, or not; it counts no bytes. A
socket says at once that the process at its other end is gone, every wait here has a deadline, nothing is left to wait
for at the end, and what was sent is what the kernel took. Each rank is connected to each, because the one whose death
matters is often not the one that is waited for. Numbers travel as they lie in memory: all hosts have the same byte
order. A host that loses its power closes nothing: its ranks are silent.
"""

import time
from collections.abc import Callable, Iterable
from select import POLLIN, POLLOUT, poll
from typing import NoReturn

from torch import Tensor

from gmi_drl.comm.meeting import Meeting, meet
from gmi_drl.comm.wire import ASK, HERE, LOST, Wire
from gmi_drl.errors import PeerDiedError, PeerSilentError, UsageError
from gmi_drl.memory.peers import Waiting, _said

_LOOK_MS = 100
_ANSWER_S = 1.0  # who is asked and has not answered after that is not looking
_LAST_WORDS_S = 1.0

Awaited = Callable[[], set[int]]
"""The ranks that something still depends on; none, and it is done."""


class SocketLink:
    """A `Link` whose ranks also meet over it, and look after each other while they wait.

    A rank that has waited for `hang_s` asks all others whether they are there. Those that wait answer, and for whom:
    so of a row of ranks that wait for each other the one is named that does not. Whoever gives up tells all others
    why, and they give up with the same words.

    Args:
        rank: This process.
        meeting: What all ranks were told.
        listener_fd: Where this one listens; it stays the caller's to close.
        hang_s: Seconds after which a peer that lives counts as silent.

    Raises:
        PeerDiedError, PeerSilentError, UsageError: As `meeting.meet`.
    """

    def __init__(self, rank: int, meeting: Meeting, listener_fd: int, hang_s: float) -> None:
        self.rank = rank
        self.size = len(meeting.addresses)
        self.wait_s = 0.0
        self._hang_s = hang_s
        self._wires = meet(rank, meeting, listener_fd, hang_s)
        self._by_fd = {wire.fileno(): peer for peer, wire in self._wires.items()}
        self._poll = poll()
        for wire in self._wires.values():
            self._poll.register(wire, POLLIN)
        self._awaited: Awaited = set
        self._lost: PeerDiedError | PeerSilentError | None = None
        self._asked: Waiting | None = None  # the waiting in which all were asked
        self._answers: dict[int, set[int]] = {}

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

    def meet(self, call: int) -> None:
        """Wait for all, who must come for the same (`memory.peers.call_word`).

        Raises:
            UsageError: If another comes for something else. All ranks raise it, in the same words.
        """
        for wire in self._wires.values():
            wire.call(call)
        self._wait(lambda: {peer for peer, wire in self._wires.items() if not wire.calls})
        calls = {peer: wire.calls.popleft() for peer, wire in self._wires.items()} | {self.rank: call}
        other = next((peer for peer in range(self.size) if calls[peer] != calls[0]), None)
        if other is not None:
            first, second = (f"rank {peer} {_said(calls[peer])}" for peer in (0, other))
            raise UsageError(f"{first}, {second}: all ranks must make the same calls in the same order")

    def look_after(self, awaited: Awaited, waiting: Waiting, nap_ms: int = 0) -> None:
        """Hear what the others say, and look once whether it makes sense to go on waiting.

        Args:
            awaited: For whom, read again after the look.
            waiting: Begun when the waiting began.
            nap_ms: Milliseconds to sleep meanwhile; whatever comes ends the sleep.

        Raises:
            PeerDiedError, PeerSilentError: If it makes none, as `Group` says.
        """
        self._awaited = awaited
        self._pump(nap_ms)
        late = awaited()
        if not late:
            return
        if self._lost:
            raise self._lost
        if dead := [peer for peer in late if not self._wires[peer].is_open]:
            self._lose(PeerDiedError, f"{self._named(dead)} ended while rank {self.rank} waited for it: its log says why")
        waited_s = waiting.look()
        if waited_s > self._hang_s and self._asked is not waiting:
            self._ask(waiting)
        elif waited_s > self._hang_s + _ANSWER_S:
            silent = self._named(self._silent(late) or late)
            text = f"{silent} lives but has not arrived for {self._hang_s:g} s (hang_s) while rank {self.rank} waited"
            self._lose(PeerSilentError, f"{text}: see what it does, or raise hang_s")

    def close(self) -> None:
        """Leave the others."""
        self._poll = poll()
        for wire in self._wires.values():
            wire.close()

    def _wait(self, awaited: Awaited) -> None:
        started = time.perf_counter()
        waiting = Waiting()
        try:
            while awaited():
                self.look_after(awaited, waiting, _LOOK_MS)
        finally:
            self.wait_s += time.perf_counter() - started

    def _pump(self, nap_ms: int) -> None:
        for wire in self._wires.values():
            if wire.is_open:
                self._poll.modify(wire, POLLIN | POLLOUT * wire.is_sending)
        for fd, _ in self._poll.poll(nap_ms):
            peer = self._by_fd[fd]
            wire = self._wires[peer]
            wire.flush()
            for kind, said in wire.read():
                self._heard(peer, kind, said.decode())
            if not wire.is_open:
                self._poll.unregister(fd)

    def _heard(self, peer: int, kind: int, said: str) -> None:
        if kind == ASK:
            self._wires[peer].tell(HERE, " ".join(map(str, self._awaited())).encode())
        elif kind == HERE:
            self._answers[peer] = set(map(int, said.split()))
        elif kind == LOST:
            name, _, text = said.partition("\n")
            self._lost = self._lost or (PeerDiedError if name == PeerDiedError.__name__ else PeerSilentError)(text)

    def _ask(self, waiting: Waiting) -> None:
        self._asked = waiting
        self._answers.clear()
        self._tell_all(ASK)

    def _silent(self, late: Iterable[int]) -> list[int]:
        """Those who do not answer, of the ranks that this one waits for, the ranks that these wait for, and so on."""
        seen = set(late)
        rows = list(seen)
        for peer in rows:
            new = self._answers.get(peer, set()) - seen - {self.rank}
            seen |= new
            rows += new
        return [peer for peer in rows if peer not in self._answers]

    def _lose(self, error: type[PeerDiedError] | type[PeerSilentError], text: str) -> NoReturn:
        """Give up, and let all others know why: they may wait for this rank, not for the one that is lost."""
        self._lost = error(text)
        self._tell_all(LOST, f"{error.__name__}\n{text}".encode())
        waiting = Waiting()
        while self._unsaid() and waiting.look() < _LAST_WORDS_S:
            self._pump(_LOOK_MS)
        raise self._lost

    def _tell_all(self, kind: int, said: bytes = b"") -> None:
        for wire in self._wires.values():
            if wire.is_open:
                wire.tell(kind, said)

    def _unsaid(self) -> list[Wire]:
        return [wire for wire in self._wires.values() if wire.is_open and wire.is_sending]

    def _named(self, peers: Iterable[int]) -> str:
        return ", ".join(f"rank {peer} (process {self._wires[peer].pid})" for peer in sorted(peers))


def _bytes_of(vector: Tensor) -> memoryview:
    return memoryview(vector.detach().numpy()).cast("B")
