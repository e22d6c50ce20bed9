"""Requests of clients that a table may let wait: rows, items, samples. Each is attempted until it is done or late."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from gmi_drl.replay.indices import Integers
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.storage import Storage
from gmi_drl.replay.storage.shared import SharedStorage
from gmi_drl.replay.stream import Stream
from gmi_drl.replay.table import Table
from gmi_drl.replay.words import (
    ACK,
    END_OF_EPISODE,
    IN_PLACE,
    ITEMS_AT_ONCE,
    LEASED,
    NEXT_CALL,
    Items,
    Lease,
    Number,
    Steps,
    WordError,
    bytes_of,
    numbers,
    write,
)

if TYPE_CHECKING:
    from gmi_drl.replay.server.connection import Connection


class Request(Protocol):
    """Something that may have to wait.

    Attributes:
        deadline: By `time.monotonic`.
        waits_for: What its table lets wait: "inserts", "samples" or "blocks".
        tables: Names of the tables that it waits for.
    """

    deadline: float
    waits_for: str
    tables: Sequence[str]

    def attempt(self) -> bool:
        """Do it, if it is possible now. Returns whether it is done."""

    def expire(self) -> None:
        """Tell the client that it was not possible in time."""

    def why(self) -> str:
        """Why it is not possible now."""


class StepsRequest:
    """Rows that go to the open block of a client's stream: they are received where they stay."""

    waits_for: str = "blocks"
    tables: Sequence[str]

    def __init__(self, connection: "Connection", word: Steps) -> None:
        self.deadline = time.monotonic() + word.timeout_s
        self._connection, self._word = connection, word
        self._storage, self._stream = connection.storage(word.storage), connection.stream(word.storage)
        self.tables = connection.tables_of(self._storage)

    def attempt(self) -> bool:
        """Find room, and begin to receive."""
        if self._word.flags & NEXT_CALL:
            self._stream.give_back_full()
        if self._word.count:
            try:
                place, room = self._stream.reserve(timeout_s=0)
            except ReplayTimeoutError:
                return False
            if self._word.count > room:
                raise WordError(f"{self._word.count} rows came where {room} are left in the block")
            if self._word.flags & IN_PLACE:
                check_shared(self._connection, self._storage)
                self._arrived()
            else:
                self._receive(place)
        elif self._word.flags & END_OF_EPISODE:
            self._stream.end_episode()
        return True

    def expire(self) -> None:
        """A writer cannot go on without its rows."""
        remedy = "sample or delete items, or make a storage of more steps"
        text = f"its rows found no free block after {self._word.timeout_s:.3g} s: {self.why()}: {remedy}"
        self._connection.send_error(0, ReplayTimeoutError(text))
        raise WordError(text)

    def why(self) -> str:
        """Who needs the blocks."""
        return self._storage.blocks.told()

    def _receive(self, place: int) -> None:
        storage, count = self._storage, self._word.count
        into = storage.rows if storage.is_direct else Rows.empty(storage.signature, (count,))
        start = place if storage.is_direct else 0

        def arrived() -> None:
            if not storage.is_direct:
                storage.write(place, into.fields)
            self._arrived()

        columns = storage.signature.columns
        targets = [bytes_of(into.words[name][start : start + count]) for name in columns]
        self._connection.receive(targets, arrived)

    def _arrived(self) -> None:
        self._stream.advance(self._word.count)
        if self._word.flags & END_OF_EPISODE:
            self._stream.end_episode()


class LeaseRequest(StepsRequest):
    """A client that writes in shared memory asks where."""

    def attempt(self) -> bool:
        """Find room, and tell its place."""
        if self._word.flags & NEXT_CALL:
            self._stream.give_back_full()
        try:
            place, room = self._stream.reserve(timeout_s=0)
        except ReplayTimeoutError:
            return False
        self._connection.send(LEASED, write(Lease(0, place, room)))
        return True


class ItemsRequest:
    """Items of the open block. They go in as far as the limiter allows; the others wait."""

    waits_for: str = "inserts"
    tables: Sequence[str]

    def __init__(self, connection: "Connection", word: Items, rest: memoryview, table: Table, storage: int) -> None:
        columns = len(table.signature.columns)
        if not 1 <= word.count <= ITEMS_AT_ONCE or word.columns not in (1, columns):
            raise WordError(f"{word.count} items with {word.columns} stretches each, of {columns} columns")
        stretches = ((word.count, word.columns), torch.int64)
        rows, length, self._priorities = numbers(rest, stretches, stretches, ((word.count,), torch.float64))
        self._first, self._length = _places(connection.stream(storage), table.storage, rows, length), length
        self.deadline, self.tables, self._left = time.monotonic() + word.timeout_s, [table.name], word.count
        self._connection, self._word, self._table = connection, word, table

    def attempt(self) -> bool:
        """Insert what is allowed, and acknowledge what is in."""
        before = self._left
        while self._left:
            if not self._table.limiter.can_insert(1):
                return self._tell_part(before)
            try:
                self._insert(self._word.count - self._left)
            except ReplayTimeoutError as error:
                self._left -= error.done
                return self._tell_part(before)
            except Exception as error:
                self._connection.send_error(self._word.request, error, self._word.count - self._left)
                return True
        self._connection.send(ACK, write(Number(self._word.request, self._word.count)))
        return True

    def _tell_part(self, before: int) -> bool:
        """Acknowledge those that are in, if there are more than before; the others wait."""
        if self._left < before:
            self._connection.send(ACK, write(Number(self._word.request, self._word.count - self._left)))
        return False

    def _insert(self, done: int) -> None:
        """Insert as many items as go in together or not at all."""
        count = min(self._left, self._table.contents.at_once)
        first, length, priorities = self._first, self._length, self._priorities
        if count < self._word.count:
            first, length, priorities = (one[done : done + count] for one in (first, length, priorities))
        self._table.insert(first, length, priorities, version=self._word.version, timeout_s=0)
        self._left -= count

    def expire(self) -> None:
        """Tell how many are in; the others never will be."""
        error = late(self._table, self._left, "inserts", self._word.timeout_s)
        self._connection.send_error(self._word.request, error, self._word.count - self._left)

    def why(self) -> str:
        """What the limiter waits for."""
        return why(self._table, self._left, "inserts")


def check_shared(connection: "Connection", storage: Storage) -> None:
    """Raise unless a client maps a storage."""
    if connection.lease_word is None or not isinstance(storage, SharedStorage):
        raise WordError("this client does not share the memory of the storage")


def _places(stream: Stream, storage: Storage, rows: Integers, steps: Integers) -> Integers:
    """Where stretches begin, whose first rows are counted in the blocks that a stream has opened.

    Raises:
        WordError: if one is not in a block that the stream holds.
    """
    held, size = stream.held, storage.blocks.block_steps
    if held:  # as a rule all are in the open block
        (begin, written), row = held[-1], (stream.opened - 1) * size
        end = row + written
        is_right = (rows >= row) & (rows < end) & (steps >= 1) & (steps <= written)  # larger sums may overflow
        is_right &= rows + steps <= end
        if np.count_nonzero(is_right) == is_right.size:
            return rows + (begin - row)
    first = stream.opened - len(held)
    number = rows // size - first
    inside = number.clip(0, max(0, len(held) - 1))
    begins, ends = np.array(held or [(0, 0)], dtype=np.int64).T
    offsets = rows - (inside + first) * size
    is_there = (inside == number) & (steps >= 1) & (steps <= size) & (offsets + steps <= ends[inside])
    if not is_there.all():
        raise WordError(f"an item has rows that are not in the {len(held)} blocks that this client writes")
    found: Integers = begins[inside] + offsets
    return found


def late(table: Table, count: int, what: str, timeout_s: float) -> ReplayTimeoutError:
    """The error for items that a table did not allow in time, with what is missing."""
    text = f"table {table.name}: {count} {what} were not allowed after {timeout_s:.3g} s"
    return ReplayTimeoutError(f"{text}: {why(table, count, what)}")


def why(table: Table, count: int, what: str) -> str:
    """Why "inserts" or "samples" wait."""
    with table.lock:
        return f"{table.limiter.why(count, what)}, {table.contents.stale} items are stale"
