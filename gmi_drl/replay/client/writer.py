"""Writes steps and items to a replay server, many in one message (Reverb, section 3.7)."""

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gmi_drl.comm.links.framing import DATA
from gmi_drl.errors import GmiError, UsageError
from gmi_drl.replay.client.connection import ANSWER_S, RemoteStorage, ServerConnection, raise_error
from gmi_drl.replay.client.pending import Answers, PendingItems, as_integers
from gmi_drl.replay.client.step_buffer import StepBuffer
from gmi_drl.replay.indices import Integers
from gmi_drl.replay.limiters import WAIT_S, ReplayTimeoutError
from gmi_drl.replay.words import END_OF_EPISODE, IN_PLACE, ITEMS, LEASE, NEXT_CALL, STEPS, Steps, check_wait, write

Frames = list[tuple[int, list[bytes | memoryview]]]

AT_ONCE_BYTES, AT_ONCE_ITEMS, AT_ONCE_S = 256 * 1024, 1024, 0.005
"""What is sent as soon as there is so much of it, or it is so old and all items before are answered, at the next call.

So messages are larger where the server is slow.
"""


class Writer:
    """A stream of steps to one storage of a server, and items of them in its tables. One thread may use it.

    It writes what the server's open block gets, and begins a new one when the server does. An item has steps that the
    last `append` wrote, or up to `longest` of the steps before, of one episode.

    Args:
        connection: Its own.
        storage: Where the steps go.
        max_in_flight_items: Items that are sent and not acknowledged, at most; then `create_items` waits.
        timeout_s: Seconds that the server lets items wait for room, or for the limiter; a day at most.

    Attributes:
        step: The number of the next step, from 0.

    Errors of the server come at the next call, or at `flush`. When the connection has ended, each call says so.
    """

    def __init__(
        self,
        connection: ServerConnection,
        storage: RemoteStorage,
        max_in_flight_items: int = 65_536,
        timeout_s: float = WAIT_S,
    ) -> None:
        if max_in_flight_items < 1:
            raise UsageError(f"max_in_flight_items must be 1 at least, not {max_in_flight_items}")
        check_wait(timeout_s)
        self.step, self.timeout_s = 0, timeout_s
        self._connection, self._storage, self._most = connection, storage, max_in_flight_items
        memory = connection.memory
        self._shared = memory.storage(storage) if memory is not None and memory.has(storage) else None
        room = min(storage.block_steps, max(1, 2 * AT_ONCE_BYTES // storage.signature.step_bytes))
        self._buffer = StepBuffer(storage.signature, room if self._shared is None else 0)
        self._rows = self._announced = storage.block_steps  # of the open block: there is none yet
        self._place = 0  # of its first row, in shared memory
        self._length = self._episode = 0  # steps of the episode, `longest` at most; its first step
        self._has_left = False  # full blocks, which the server is not told yet
        self._since = time.monotonic()
        self._items = PendingItems(storage.block_steps)
        self._answers = Answers()

    @property
    def storage(self) -> RemoteStorage:
        """Where the steps go."""
        return self._storage

    @property
    def acknowledged(self) -> int:
        """Items that are in, for sure."""
        return self._answers.acknowledged

    @property
    def in_flight(self) -> int:
        """Items that are sent and not acknowledged."""
        return self._answers.in_flight

    @property
    def block_steps(self) -> int:
        """Steps of a block of the storage."""
        return self._storage.block_steps

    @property
    def room(self) -> int:
        """Steps that fit in the open block."""
        return self._storage.block_steps - self._rows

    @property
    def is_settled(self) -> bool:
        """Whether the server has answered to all items, and has refused nothing that is not raised yet."""
        answers = self._answers
        self._connection.read(answers.handle)
        has_failed = answers.failure is not None or answers.end is not None
        return self._connection.framed.is_open and not answers.in_flight and not has_failed

    def count_anew(self) -> None:
        """Count items from here on: what is told later is of these alone. None may be in flight."""
        self._answers = Answers()

    def append(self, fields: Mapping[str, Tensor]) -> int:
        """Write n steps of one episode, which goes on.

        Args:
            fields: `[n, *shape]` of each field.

        Returns:
            The number of the first of them.

        Raises:
            UsageError: if a field is missing, unknown or of another shape or type.
        """
        self._check_open()
        self._storage.signature.check(fields)
        if self._items.has_full_blocks:
            self._items.forget_full_blocks()
            self._has_left = True
        first, count, done = self.step, len(next(iter(fields.values()))), 0
        while done < count:
            if self._rows == self._storage.block_steps:
                self._open_block()
            done += self._write(fields, done, min(count - done, self.room))
        if self._buffer.waiting * self._storage.signature.step_bytes >= AT_ONCE_BYTES:
            self._send(self._steps())  # before their items, which then need fewer messages
        return first

    def create_items(
        self,
        table: str,
        first: int | Tensor | Integers,
        length: int | Tensor | Integers = 1,
        priority: float | Tensor | NDArray[np.float64] = 1.0,
        version: int = 0,
    ) -> None:
        """Make items of steps. They are in when `flush` returns.

        Args:
            table: One of this storage.
            first: First steps, by their numbers: one, `[n]`, or `[n, columns]` if columns have different stretches.
            length: Steps of all, `[n]` or `[n, columns]`.
            priority: Of all, or `[n]`.
            version: Of the policy that acted.

        Raises:
            UsageError: if the table or the steps are not there (any more).
            GmiError: if the server has refused earlier items, with how many are in and how many are not.
        """
        self._check_open()
        number, storage = self._connection.table(table)
        if storage.number != self._storage.number:
            raise UsageError(f"table {table} has another storage than this writer")
        numbers = as_integers(first)
        lengths = length if isinstance(length, int) else as_integers(length)
        if not isinstance(lengths, int) and lengths.shape != numbers.shape:
            lengths = np.broadcast_to(lengths, numbers.shape)
        self._check(table, numbers, lengths)
        self._items.add(number, numbers, lengths, priority, version)
        self._send_if_due()
        if self._answers.in_flight > self._most:
            self._wait(lambda: self._answers.in_flight <= self._most, self.timeout_s)

    def end_episode(self) -> None:
        """End the episode: no later item has steps of it, also if this raises what the server has told of items."""
        self.send()
        if self._length:
            self._connection.framed.send_together([(STEPS, self._message(0, END_OF_EPISODE))])
        self._length, self._episode = 0, self.step
        self._raise()

    def flush(self, timeout_s: float = WAIT_S, left: int = 0) -> int:
        """Send everything, and wait until all items are in, but `left`. Returns how many of this writer are.

        Raises:
            ReplayTimeoutError: if they are not in time; they may come in later. `done` says how many are in.
            ServerLostError: if the server ended; the message says how many items are in for sure.
            GmiError: if the server refused some.
        """
        self.send()
        self._wait(lambda: self._answers.in_flight <= left, timeout_s)
        self._raise()
        return self.acknowledged

    def send(self) -> None:
        """Send what is there, and read what the server has answered. Waits if the network takes no more."""
        self._since = time.monotonic()
        frames = self._steps()
        for table, version, stretches in self._items.take():
            request = self._connection.next_request()
            frames.append((ITEMS, self._items.message(request, table, version, self.timeout_s, stretches)))
            self._answers.sent(request, len(stretches[0]))
        if self._has_left:
            frames.append((STEPS, self._message(0, NEXT_CALL)))
            self._has_left = False
        self._send(frames)

    def close(self, timeout_s: float = WAIT_S) -> None:
        """Flush, and end the connection."""
        try:
            self.flush(timeout_s)
        finally:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self._connection.close()

    def _check(self, table: str, first: Integers, length: int | Integers) -> None:
        """Raise unless items `[n, columns]` have steps that are there. Few operations: it is done for each call."""
        if not len(first):
            return
        if isinstance(length, int):
            shortest, longest, end = length, length, int(first.max()) + length
        else:
            shortest, longest, end = int(length.min()), int(length.max()), int((first + length).max())
        oldest, most = max(self._items.first_step, self._episode), self._storage.longest
        if shortest < 1 or longest > most or end > self.step or int(first.min()) < oldest:
            text = f"items have 1 to {most} steps, of those from {oldest} to {self.step - 1}"
            raise UsageError(f"table {table}: {text}: make them before older steps are gone")

    def _send_if_due(self) -> None:
        if self._items.count >= AT_ONCE_ITEMS:
            self.send()
        elif time.monotonic() - self._since > AT_ONCE_S:
            self._connection.read(self._answers.handle)
            if not self._answers.in_flight:
                self.send()

    def _write(self, fields: Mapping[str, Tensor], first: int, most: int) -> int:
        """Write up to `most` of the steps `[n, *shape]`, from `first` on, or send them. Returns how many."""
        if self._shared is not None:
            part = {name: value[first : first + most].detach() for name, value in fields.items()}
            self._shared.write(self._place + self._rows, part)
            return self._count(most)
        if (unpacked := self._buffer.unpacked(fields, first, most)) is not None:
            frames = [*self._steps(), (STEPS, self._message(most))]
            self._send(frames + [(DATA, [view]) for view in unpacked])
            self._announced += self._count(most)
            self._await_sent()
            return most
        if not self._buffer.room:
            self._send(self._steps())
            self._await_sent()
            self._buffer.clear()
        count = min(most, self._buffer.room)
        self._buffer.write(fields, first, count)
        return self._count(count)

    def _count(self, count: int) -> int:
        """Count steps that are written. Returns how many."""
        self._rows, self.step = self._rows + count, self.step + count
        self._length = min(self._length + count, self._storage.longest)
        return count

    def _steps(self) -> Frames:
        """What is there of steps: a message, and a frame for each column unless they lie in shared memory."""
        count = self._rows - self._announced
        if not count:
            return []
        self._announced = self._rows
        if self._shared is not None:
            return [(STEPS, self._message(count, IN_PLACE))]
        frames: Frames = [(STEPS, self._message(count))]
        return frames + [(DATA, [view]) for view in self._buffer.take()]

    def _message(self, count: int, flags: int = 0) -> list[bytes | memoryview]:
        return write(Steps(self._storage.number, count, flags, self.timeout_s))

    def _send(self, frames: Frames) -> None:
        self._connection.check_own()
        if frames:
            self._connection.framed.send_together(frames)
        if frames or self._answers.in_flight:
            self._connection.read(self._answers.handle)
        if self._answers.end is not None or (frames and not self._connection.framed.is_open):
            self._check_open()

    def _open_block(self) -> None:
        """Go on where the server does: in a new block, behind a copy of the steps that coming items may need."""
        self.send()
        carried = min(self._length, self._storage.longest - 1)
        if self._shared is not None:
            self._place = self._lease() - carried
        self._items.open_block(self.step - carried, self.step)
        self._rows = self._announced = carried

    def _lease(self) -> int:
        """Ask the server for a block to write to. Returns the place of the next step."""
        self._answers.leased = None
        self._connection.framed.send_together([(LEASE, self._message(0))])
        self._await(lambda: self._answers.leased is not None)
        return self._answers.place()

    def _await_sent(self) -> None:
        """Wait until the network has taken everything."""
        try:
            self._await(lambda: not self._connection.framed.is_sending)
        except ReplayTimeoutError:
            self._connection.close()  # the server may have a part of the steps
            raise

    def _await(self, is_done: Callable[[], bool]) -> None:
        """Wait within `append` for what it needs. Items that are refused meanwhile are told at the next call."""
        self._wait_only(is_done, self.timeout_s + ANSWER_S)
        if self._answers.end is not None:
            self._raise()

    def _wait(self, is_done: Callable[[], bool], timeout_s: float) -> None:
        self._wait_only(is_done, timeout_s)
        self._raise()

    def _wait_only(self, is_done: Callable[[], bool], timeout_s: float) -> None:
        """Wait until something is done, or the server ends the connection."""
        answers, deadline = self._answers, time.monotonic() + timeout_s
        try:
            self._connection.wait(lambda: is_done() or answers.end is not None, answers.handle, deadline, "items")
        except ReplayTimeoutError:
            raise ReplayTimeoutError(f"{self._told()} after {timeout_s:g} s", self.acknowledged) from None
        except GmiError as error:
            raise type(error)(f"{error}; {self._told()}") from None

    def _check_open(self) -> None:
        """Raise what the server has told, or that the connection has ended, or is of another process."""
        self._connection.check_own()
        self._raise()
        if not self._connection.framed.is_open:
            self._wait(lambda: False, 0.0)

    def _raise(self) -> None:
        """Raise what the server has told: of items once, of the end of the connection at each call."""
        told, self._answers.failure = self._answers.end or self._answers.failure, None
        if told is not None:
            raise_error(told | {"message": f"{told['message']}; {self._told()}", "done": self.acknowledged})

    def _told(self) -> str:
        answers = self._answers
        missing = answers.in_flight + self._items.count
        return f"{answers.acknowledged} items are in, {answers.refused} were refused, {missing} are not acknowledged"
