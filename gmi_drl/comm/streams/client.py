"""The client's end of an inference stream: an actor posts observations, goes on, and later takes actions."""

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

from torch import Tensor

from gmi_drl.comm.memory.fence import order_loads, publish
from gmi_drl.comm.streams.slots import (
    ANSWER_NS,
    ANSWER_ROWS,
    ANSWER_VERSION,
    ANSWERED,
    FETCHED_NS,
    HAS_LEFT,
    POSTED,
    POSTED_NS,
    PROCESSES,
    SERVER_PROCESSES,
    SLOT_WORDS,
    VERSION,
    WAITED_NS,
    WHAT,
    Slots,
)
from gmi_drl.errors import PeerDiedError, PeerSilentError, UsageError

_NS = 1e-9


class Answer(NamedTuple):
    """An answer, which stays in its slot until the member's next request.

    Attributes:
        version: Of the policy that gave it.
        rows: Of the batch that it was given in.
        took_s: Seconds from the request to the answer.
        tensors: By name.
        server_waited_s: Seconds that the server's process had waited for requests by then, since it began.
        server_fetched_s: The same for versions of the policy.
    """

    version: int
    rows: int
    took_s: float
    tensors: dict[str, Tensor]
    server_waited_s: float = 0.0
    server_fetched_s: float = 0.0


class Waker(Protocol):
    """What a client needs of a `Notifier`; one whose server is on another host has a `far_client.ServerLink`."""

    own: int
    hang_s: float

    def notify(self, peer: int) -> None:
        """See `Notifier.notify`."""

    def wait(self, is_done: Callable[[], bool], peer: int, action: str) -> None:
        """See `Notifier.wait`."""

    def wait_at_most(self, is_done: Callable[[], bool], most_s: float) -> bool:
        """See `Notifier.wait_at_most`."""

    def watch_successor(self, peer: int) -> None:
        """See `Notifier.watch_successor`."""

    def close(self) -> None:
        """See `Notifier.close`."""


class StreamClient:
    """Posts requests and takes answers, one under way for each member. One thread uses it.

    Args:
        memory: Of the stream.
        notifier: Of this GMI.
        spin_s: Seconds of looking for an answer before it sleeps; 0 unless client and server have cores of their own.
        predecessors: How many processes were this client before, and have ended.
        awaits_successors: Whether an ended server may be replaced: then its successor is waited for, `hang_s` at most,
            and answers what is open.

    Attributes:
        wait_s: Seconds waited so far for answers.
    """

    def __init__(
        self,
        memory: Slots,
        notifier: Waker,
        spin_s: float = 0.0,
        predecessors: int = 0,
        *,
        awaits_successors: bool = False,
    ) -> None:
        sizes = memory.sizes
        self.sizes, self.wait_s = sizes, 0.0
        self._memory, self._words, self._notifier, self._spin_s = memory, memory.words, notifier, spin_s
        self._server, self._awaits_successors = sizes.server_of(notifier.own), awaits_successors
        slots = sizes.slots_of(notifier.own)
        self._lines = [slot * SLOT_WORDS for slot in slots]
        self.requests = [memory.request(slot) for slot in slots]
        """For each member the tensors of its request, to be written before it is posted."""
        self._answers = [memory.answer(slot) for slot in slots]
        self._posted = [self._words[line + POSTED] for line in self._lines]
        self._is_open = [False] * len(slots)
        self._server_processes = self._words[self._lines[0] + SERVER_PROCESSES]
        self._words[self._lines[0] + PROCESSES] = predecessors + 1
        notifier.notify(self._server)  # it may wait for this client

    def post(self, member: int, what: int = 0, version: int = 0) -> None:
        """Post the request in `requests[member]`.

        Args:
            member: Of the ring.
            what: What is asked, which client and server agree on.
            version: The answer is by this version of the policy or a later one.

        Raises:
            UsageError: If the answer to its last request was not taken.
        """
        if self._is_open[member]:
            raise UsageError(f"member {member} has a request under way: take its answer before the next is posted")
        words, line = self._words, self._lines[member]
        words[line + WHAT], words[line + VERSION], words[line + POSTED_NS] = what, version, time.monotonic_ns()
        self._posted[member] += 1
        self._is_open[member] = True
        publish(words, line + POSTED, self._posted[member])
        self._notifier.notify(self._server)

    def take(self, member: int) -> Answer:
        """Wait for the answer to a member's request.

        Raises:
            UsageError: If it has none under way.
            PeerDiedError: If the server has ended, and none will succeed it.
            PeerSilentError: If it has not answered within `hang_s`, or no successor has come for as long.
        """
        if not self._is_open[member]:
            raise UsageError(f"member {member} has no request under way: post one first")
        words, place, number = self._words, self._lines[member] + ANSWERED, self._posted[member]
        if words[place] != number:
            self._await(place, number)
        order_loads()
        self._is_open[member] = False
        line = self._lines[member]
        took_s = (words[line + ANSWER_NS] - words[line + POSTED_NS]) * _NS
        version, rows = words[line + ANSWER_VERSION], words[line + ANSWER_ROWS]
        server_s = words[line + WAITED_NS] * _NS, words[line + FETCHED_NS] * _NS
        return Answer(version, rows, took_s, self._answers[member], *server_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Leave; after an error this client has only ended, and the server goes on with others."""
        if kind is None:
            self.close()
        else:
            self._notifier.close()

    def close(self) -> None:
        """Leave: the server expects no more requests."""
        publish(self._words, self._lines[0] + HAS_LEFT, 1)
        self._notifier.notify(self._server)
        self._notifier.close()

    def _await(self, place: int, number: int) -> None:
        """Wait for the answer, and count how long."""
        began, words = time.perf_counter(), self._words
        if not self._spin_s or not self._look(place, number):
            while words[place] != number:
                self._sleep(lambda: words[place] == number or self._has_successor())
        self.wait_s += time.perf_counter() - began

    def _sleep(self, is_done: Callable[[], bool]) -> None:
        """Wait for an answer, or for another process of the server, which is then watched."""
        notifier, hang_s = self._notifier, self._notifier.hang_s
        try:
            notifier.wait(is_done, self._server, "answered a request")
        except PeerDiedError as error:
            if not self._awaits_successors:
                raise
            if not notifier.wait_at_most(is_done, hang_s):
                raise PeerSilentError(f"{error}, and no successor has come for {hang_s:g} s (hang_s)") from None
        if self._has_successor():
            self._server_processes = self._words[self._lines[0] + SERVER_PROCESSES]
            notifier.watch_successor(self._server)

    def _has_successor(self) -> bool:
        return bool(self._words[self._lines[0] + SERVER_PROCESSES] != self._server_processes)

    def _look(self, place: int, number: int) -> bool:
        """Look for the answer for `spin_s`. Returns whether it is there."""
        words, until = self._words, time.perf_counter() + self._spin_s
        while time.perf_counter() < until:
            if words[place] == number:
                return True
        return False
