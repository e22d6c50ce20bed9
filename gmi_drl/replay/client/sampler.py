"""Batches of a table, asked for before they are needed (Reverb, section 3.8)."""

import time
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from select import POLLIN, POLLOUT, poll
from typing import Self

from gmi_drl.errors import GmiWarning
from gmi_drl.replay.client.connection import ANSWER_S, ServerConnection, ServerLostError, raise_error
from gmi_drl.replay.client.samples import ServerBatch, Wish
from gmi_drl.replay.client.shared import LeaseLostError
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.words import ERROR, SAMPLES, Samples, WordError, check_request, from_json, read

_LATE = ReplayTimeoutError.__name__


class Sampler:
    """An iterator of batches that are asked for ahead, so that they are there when they are needed.

    The order of a server's answers is kept. A batch that the limiter does not allow in time ends the iteration. The
    server counts samples when it sends them, so those that were asked for and are not used count, too. Where the
    server's memory is mapped, nothing is asked for ahead: the answer has places, and others wait for their blocks.

    Args:
        connections: Its own, each with the number of its server.
        wish: What each batch is.
        max_in_flight: Samples that each connection is asked for ahead; up to `wish.count` means that none is before the
            last batch is used.
        most: Samples in all; then the iteration ends. None for no limit.

    Attributes:
        used: Samples that this iterator has returned.
    """

    def __init__(
        self,
        connections: Sequence[tuple[int, ServerConnection]],
        wish: Wish,
        max_in_flight: int,
        most: int | None = None,
    ) -> None:
        self.used = self._asked_of_lost = self._lost_before = 0
        self._most = most
        self._wish, self._ahead = wish, max(1, max_in_flight // wish.count)
        self._lines = [_Line(server, connection, wish) for server, connection in connections]
        self._turn = 0
        self._is_over = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ServerBatch:
        """The next batch, of whichever server has it first.

        Raises:
            StopIteration: if the limiter of a server did not allow it in time.
            ServerLostError: if no server is left.
            UsageError: if no server ever gives such a batch.
        """
        if self._is_over:
            raise StopIteration
        for line in self._lines:
            line.connection.check_own()
        deadline = time.monotonic() + self._wish.timeout_s + ANSWER_S
        for line in self._lines:
            self._ask(line)
        if not any(line.waiting or line.arrived for line in self._lines):  # there are as many as wanted
            self._is_over = True
            raise StopIteration
        while (ready := self._ready()) is None:
            self._poll(deadline)
        told = ready.arrived.popleft()
        if isinstance(told, ServerBatch):
            self.used += len(told.records)
            return told
        self._is_over = True
        if told["kind"] == _LATE:
            raise StopIteration
        raise_error(told)

    def ask(self) -> None:
        """Ask for the next batch now, and not when it is wanted. Where memory is mapped, this does nothing."""
        for line in self._lines:
            line.connection.check_own()
            if line.connection.memory is None and line.connection.framed.is_open:
                self._ask(line)

    @property
    def asked(self) -> int:
        """Samples that the servers were asked for; of batches that came, and of servers that ended, those that came."""
        return self._asked_of_lost + sum(line.asked for line in self._lines)

    @property
    def _lost(self) -> int:
        """Samples whose rows were taken back before they were read."""
        return self._lost_before + sum(line.lost for line in self._lines)

    @property
    def unused(self) -> int:
        """Samples that were asked for and not used yet."""
        return self.asked - self.used

    def close(self) -> int:
        """End the connections. Returns how many samples were asked for and not used."""
        self._is_over = True
        for line in self._lines:
            line.connection.close()
        return self.unused

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, line: "_Line") -> None:
        ahead = 1 if line.connection.memory is not None else self._ahead
        while len(line.waiting) + len(line.arrived) < ahead:
            count = self._wish.count
            if self._most is not None and (count := min(count, self._most - self.asked + self._lost)) < 1:
                return
            line.ask(count)

    def _ready(self) -> "_Line | None":
        """A connection with a complete batch; they take turns."""
        count = len(self._lines)
        for place in range(count):
            line = self._lines[(self._turn + place) % count]
            if line.is_ready:
                self._turn = (self._turn + place + 1) % count
                return line
        return None

    def _poll(self, deadline: float) -> None:
        polling = poll()
        for line in self._lines:
            framed = line.connection.framed
            polling.register(framed.fileno(), POLLIN | POLLOUT if framed.is_sending else POLLIN)
        left = deadline - time.monotonic()
        if left <= 0:
            addresses = ", ".join(line.connection.address for line in self._lines)
            raise ReplayTimeoutError(f"no replay server of {addresses} has answered in time")
        ready = {descriptor for descriptor, _ in polling.poll(min(left, 60.0) * 1000)}
        for line in list(self._lines):
            if line.connection.framed.fileno() in ready:
                line.connection.framed.flush()
                line.connection.read(line.handle)
            if not line.connection.framed.is_open and not line.is_ready:
                self._drop(line)

    def _drop(self, line: "_Line") -> None:
        """Go on without a server that has ended, if there are others."""
        address = line.connection.address
        line.connection.close()
        self._lines.remove(line)
        self._asked_of_lost += line.asked - line.unanswered
        self._lost_before += line.lost
        if not self._lines:
            raise ServerLostError(f"the replay server at {address} ended or closed the connection") from None
        warnings.warn(f"the replay server at {address} ended: samples come from the others", GmiWarning, stacklevel=4)


@dataclass
class _Line:
    """A connection, and what was asked for there."""

    server: int
    connection: ServerConnection
    wish: Wish
    arrived: deque[ServerBatch | dict[str, object]] = field(default_factory=deque)  # the last one may lack rows
    waiting: deque[tuple[int, int]] = field(default_factory=deque)  # requests, and how many samples are wanted
    asked: int = 0
    lost: int = 0  # of those, whose rows were taken back

    def ask(self, count: int) -> None:
        wish = self.wish if count == self.wish.count else replace(self.wish, count=count)
        self.waiting.append((wish.ask(self.connection), count))
        self.asked += count

    @property
    def unanswered(self) -> int:
        """Samples of requests that have no answer, or no complete one."""
        halves = [told for told in self.arrived if isinstance(told, ServerBatch)] if not self.is_ready else []
        return sum(count for _, count in self.waiting) + sum(len(half.records) for half in halves)

    @property
    def is_ready(self) -> bool:
        return len(self.arrived) > self.connection.framed.is_receiving

    def handle(self, kind: int, message: bytes) -> None:
        if kind == SAMPLES and self.waiting:
            request, count = self.waiting.popleft()
            self.asked += read(Samples, message)[0].count - count
            try:
                self.arrived.append(self.wish.receive(self.connection, message, request, self.server))
            except LeaseLostError:
                self.lost += read(Samples, message)[0].count
                self.ask(count)
        elif kind == ERROR:
            answered, told = from_json(message)
            check_request(answered, *(request for request, _ in self.waiting))
            self.waiting.popleft()
            self.arrived.append(told)
        else:
            raise WordError(f"a sampler got an answer of kind {kind}")
