"""Writes steps and items to a replay server, many in one message (Reverb, section 3.7)."""

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from gmi_drl.comm.links.framing import DATA
from gmi_drl.errors import GmiError, UsageError
from gmi_drl.replay.client.connection import ANSWER_S, RemoteStorage, ServerConnection, raise_error
from gmi_drl.replay.client.pending import Answers, PendingItems
from gmi_drl.replay.limiters import WAIT_S, ReplayTimeoutError
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.words import END_OF_EPISODE, IN_PLACE, ITEMS, LEASE, NEXT_CALL, STEPS, Steps, bytes_of, write

Frames = list[tuple[int, list[bytes | memoryview]]]

AT_ONCE_BYTES, AT_ONCE_ITEMS, AT_ONCE_S = 256 * 1024, 1024, 0.005
"""What is sent as soon as there is so much of it, or it is so old, at the next call."""


class Writer:
    """A stream of steps to one storage of a server, and items of them in its tables. One thread may use it.

    It writes what the server's open block gets, and begins a new one when the server does. An item has steps that the
    last `append` wrote, or up to `longest` of the steps before, of one episode.

    Args:
        connection: Its own.
        storage: Where the steps go.
        max_in_flight_items: Items that are sent and not acknowledged, at most; then `create_items` waits.
        timeout_s: Seconds that the server lets items wait for room, or for the limiter.

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
        self.step, self.timeout_s = 0, timeout_s
        self._connection, self._storage, self._most = connection, storage, max_in_flight_items
        memory = connection.memory
        self._memory = memory if memory is not None and memory.has(storage) else None
        self._buffer = Rows.empty(storage.signature, (0 if self._memory else storage.block_steps,))
        self._rows = self._sent = storage.block_steps  # of the open block: there is none yet
        self._length = self._episode = 0  # steps of the episode, `longest` at most; its first step
        self._flags = 0
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
            self.send()
            self._items.forget_full_blocks()
            self._flags |= NEXT_CALL
        first, count, done = self.step, len(next(iter(fields.values()))), 0
        while done < count:
            if self._rows == self._storage.block_steps:
                self._open_block()
            part = min(count - done, self._storage.block_steps - self._rows)
            for name, value in fields.items():
                self._buffer.fields[name][self._rows : self._rows + part].copy_(value[done : done + part])
            self._rows += part
            self.step += part
            self._length = min(self._length + part, self._storage.longest)
            done += part
        self._send_if_due()
        return first

    def create_items(
        self,
        table: str,
        first: int | Tensor,
        length: int | Tensor = 1,
        priority: float | Tensor = 1.0,
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
        first = torch.as_tensor(first, dtype=torch.int64)
        first = first if first.dim() == 2 else first.reshape(-1, 1)
        lengths = torch.as_tensor(length, dtype=torch.int64)
        lengths = (lengths if lengths.dim() == 2 else lengths.reshape(-1, 1)).expand_as(first)
        self._check(table, first, length if isinstance(length, int) else lengths)
        self._items.add(number, first, lengths, priority, version)
        self._send_if_due()
        if self._answers.in_flight > self._most:
            self._wait(lambda: self._answers.in_flight <= self._most, self.timeout_s)

    def end_episode(self) -> None:
        """End the episode: no later item has steps of it, also if this raises what the server has told of items."""
        self.send()
        if self._length:
            word = Steps(self._storage.number, 0, END_OF_EPISODE, self.timeout_s)
            self._connection.framed.send_together([(STEPS, write(word))])
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
        for table, version, tensors in self._items.take():
            request = self._connection.next_request()
            frames.append((ITEMS, self._items.message(request, table, version, self.timeout_s, tensors)))
            self._answers.sent(request, len(tensors[0]))
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

    def _check(self, table: str, first: Tensor, length: int | Tensor) -> None:
        """Raise unless items `[n, columns]` have steps that are there. Few operations: it is done for each call."""
        if not len(first):
            return
        numbers = first.numpy()  # its calls cost a fraction of torch's
        if isinstance(length, int):
            shortest, longest, end = length, length, int(numbers.max()) + length
        else:
            lengths = length.numpy()
            shortest, longest, end = int(lengths.min()), int(lengths.max()), int((numbers + lengths).max())
        oldest, most = max(self._items.first_step, self._episode), self._storage.longest
        if shortest < 1 or longest > most or end > self.step or int(numbers.min()) < oldest:
            text = f"items have 1 to {most} steps, of those from {oldest} to {self.step - 1}"
            raise UsageError(f"table {table}: {text}: make them before older steps are gone")

    def _send_if_due(self) -> None:
        """Send what is due. Steps may go before their items, which then need fewer messages."""
        if self._items.count >= AT_ONCE_ITEMS or time.monotonic() - self._since > AT_ONCE_S:
            self.send()
        elif (self._rows - self._sent) * self._storage.signature.step_bytes >= AT_ONCE_BYTES and self._memory is None:
            self._send(self._steps())

    def _steps(self) -> Frames:
        """What is there of steps: a message, and a frame for each column unless they lie in shared memory."""
        count, rows = self._rows - self._sent, slice(self._sent, self._rows)
        if not count:
            return []
        flags = self._flags | IN_PLACE * (self._memory is not None)
        frames: Frames = [(STEPS, write(Steps(self._storage.number, count, flags, self.timeout_s)))]
        if self._memory is None:
            frames += [(DATA, [bytes_of(words[rows])]) for words in self._buffer.words.values()]
        self._sent, self._flags = self._rows, 0
        return frames

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
        if self._connection.framed.is_sending:  # the buffer is written over now
            self._wait(lambda: not self._connection.framed.is_sending, self.timeout_s + ANSWER_S)
        carried = min(self._length, self._storage.longest - 1)
        if self._memory is not None:
            self._buffer = self._memory.block(self._storage, self._lease() - carried)
        self._items.open_block(self.step - carried, self.step)
        self._rows = self._sent = carried

    def _lease(self) -> int:
        """Ask the server for a block to write to. Returns the place of the next step."""
        word = Steps(self._storage.number, 0, self._flags, self.timeout_s)
        self._flags, self._answers.leased = 0, None
        self._connection.framed.send_together([(LEASE, write(word))])
        self._wait(lambda: self._answers.leased is not None, self.timeout_s + ANSWER_S)
        return self._answers.place()

    def _wait(self, is_done: Callable[[], bool], timeout_s: float) -> None:
        answers, deadline = self._answers, time.monotonic() + timeout_s
        try:
            self._connection.wait(lambda: is_done() or answers.end is not None, answers.handle, deadline, "items")
        except ReplayTimeoutError:
            raise ReplayTimeoutError(f"{self._told()} after {timeout_s:g} s", self.acknowledged) from None
        except GmiError as error:
            raise type(error)(f"{error}; {self._told()}") from None
        self._raise()

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
