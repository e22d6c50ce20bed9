"""Requests of clients that a table may let wait: rows, items, samples. Each is attempted until it is done or late."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.batch import Selection
from gmi_drl.replay.items import STRETCHES, first_steps, lengths
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.storage import Storage
from gmi_drl.replay.storage.shared import SharedStorage
from gmi_drl.replay.stream import Stream
from gmi_drl.replay.table import Table
from gmi_drl.replay.words import (
    ACK,
    DATA_BYTES,
    DISTINCT,
    END_OF_EPISODE,
    FLEXIBLE,
    IN_PLACE,
    ITEMS_AT_ONCE,
    LEASED,
    NEXT_CALL,
    PLACES,
    REPLY_BYTES,
    SAMPLES,
    SAMPLES_AT_ONCE,
    Items,
    Lease,
    Number,
    Sample,
    Samples,
    Steps,
    WordError,
    arrays,
    bytes_of,
    write,
)

if TYPE_CHECKING:
    from gmi_drl.replay.server.connection import Connection

UNCOPIED_BYTES = 16 * 1024
"""Items of this size and more are sent from where they lie, without a copy."""


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
        rows, length, self._priorities = arrays(rest, stretches, stretches, ((word.count,), torch.float64))
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
        end = min(self._word.count, done + self._table.contents.at_once)
        first, length, priorities = (one[done:end] for one in (self._first, self._length, self._priorities))
        self._table.insert(first, length, priorities, version=self._word.version, timeout_s=0)
        self._left -= end - done

    def expire(self) -> None:
        """Tell how many are in; the others never will be."""
        error = late(self._table, self._left, "inserts", self._word.timeout_s)
        self._connection.send_error(self._word.request, error, self._word.count - self._left)

    def why(self) -> str:
        """What the limiter waits for."""
        return why(self._table, self._left, "inserts")


class SampleRequest:
    """A batch that the limiter has to allow.

    Places are told of tables without `max_times_sampled` alone: their items may be gone when a client asks again.
    """

    waits_for: str = "samples"
    tables: Sequence[str]

    def __init__(self, connection: "Connection", word: Sample, table: Table) -> None:
        names = table.signature.columns
        self._columns = tuple(name for bit, name in enumerate(names) if word.columns >> bit & 1)
        if not self._columns or word.columns >> len(names):
            raise WordError(f"columns {word.columns:b} of {len(names)}")
        self._row_bytes = max(table.signature.row_bytes(name) for name in self._columns)
        self._of_records = (REPLY_BYTES - Samples.layout.size) // (8 * (1 + STRETCHES + len(names)))
        self._connection, self._word, self._table = connection, word, table
        if word.count < 1 or (word.count > (most := self._most()) and not word.flags & FLEXIBLE):
            raise UsageError(f"table {table.name}: a batch has 1 to {most} items of this size, not {word.count}")
        self.deadline, self.tables = time.monotonic() + word.timeout_s, [table.name]
        if word.flags & PLACES:
            check_shared(connection, table.storage)

    def attempt(self) -> bool:
        """Sample, and send the batch."""
        table, word, count = self._table, self._word, self._word.count
        if word.flags & FLEXIBLE:
            with table.lock:
                count = table.contents.samples_allowed(min(count, self._most()))
            if not count:
                return False
        newer_than = None if word.newer_than < 0 else word.newer_than
        is_distinct = bool(word.flags & DISTINCT)
        try:
            selection = table.select(count, distinct=is_distinct, newer_than=newer_than, timeout_s=0)
            self._send(selection)
        except ReplayTimeoutError:
            return False
        except Exception as error:
            self._connection.send_error(word.request, error)
        return True

    def _send(self, selection: Selection) -> None:
        """Send the rows of a selection, or tell where they are. Nobody writes over them until they are read."""
        table, word, is_kept = self._table, self._word, False
        try:
            if word.flags & PLACES and not table.contents.max_times_sampled:
                data, longest, is_kept = list[list[memoryview]](), 0, True
                ticket = self._connection.lend(table.storage, selection.ticket)
            else:
                (data, longest, is_kept), ticket = self._data(selection.records), -1
                if is_kept:
                    self._connection.hold(table.storage, selection.ticket)
        finally:
            if not is_kept:
                table.storage.end_reading(selection.ticket)
        head = Samples(word.request, len(selection.records), longest, selection.table_size, ticket)
        self._connection.send_rows(SAMPLES, write(head, selection.probabilities, selection.records), data)

    def expire(self) -> None:
        """Tell what is missing."""
        error = late(self._table, self._word.count, "samples", self._word.timeout_s)
        self._connection.send_error(self._word.request, error)

    def why(self) -> str:
        """What the limiter waits for."""
        return why(self._table, self._word.count, "samples")

    def _most(self) -> int:
        """Items that a batch may have, if all are as long as the longest so far."""
        longest = self._table.contents.longest
        return max(1, min(SAMPLES_AT_ONCE, self._of_records, DATA_BYTES // (self._row_bytes * longest)))

    def _data(self, records: torch.Tensor) -> tuple[list[list[memoryview]], int, bool]:
        """The rows of the items, for each column in pieces, the longest item's steps, and whether it is no copy."""
        table, count = self._table, len(records)
        stretches = records[:, STRETCHES:]
        steps = lengths(stretches)
        longest = int(steps.max()) if table.storage.longest > 1 else 1
        smallest = min(table.signature.row_bytes(name) for name in self._columns)
        is_even = table.storage.longest == 1 or int(steps.min()) == longest
        if table.storage.is_direct and is_even and smallest * longest >= UNCOPIED_BYTES:
            first = first_steps(stretches)
            return [_pieces(table.storage, name, first, longest) for name in self._columns], longest, True
        key = (id(table), count, longest, self._columns)
        out = self._connection.buffer(key, _rows_of(table, count, longest, self._columns))
        table.gather(records, self._columns, out)
        return [[bytes_of(out.words[name])] for name in self._columns], longest, False


def check_shared(connection: "Connection", storage: Storage) -> None:
    """Raise unless a client maps a storage."""
    if connection.lease_word is None or not isinstance(storage, SharedStorage):
        raise WordError("this client does not share the memory of the storage")


def _places(stream: Stream, storage: Storage, rows: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """Where stretches begin, whose first rows are counted in the blocks that a stream has opened.

    Raises:
        WordError: if one is not in a block that the stream holds.
    """
    held, size, numbers = stream.held, storage.blocks.block_steps, rows.numpy()
    if held and numbers.min() >= (row := (stream.opened - 1) * size):  # as a rule all are in the open block
        (begin, written), steps = held[-1], length.numpy()
        most = max(steps.max(), numbers.max() - row)  # a sum of larger ones may overflow
        if steps.min() >= 1 and most <= written and (numbers + steps).max() <= row + written:
            return torch.from_numpy(numbers + (begin - row))
    first = stream.opened - len(held)
    number = torch.div(rows, size, rounding_mode="floor") - first
    inside = number.clamp(0, max(0, len(held) - 1))
    begins, ends = torch.tensor(held or [(0, 0)]).unbind(1)
    offsets = rows - (inside + first) * size
    is_right = (inside == number) & (length >= 1) & (length <= size) & (offsets + length <= ends[inside])
    if not bool(is_right.all()):
        raise WordError(f"an item has rows that are not in the {len(held)} blocks that this client writes")
    return begins[inside] + offsets


def late(table: Table, count: int, what: str, timeout_s: float) -> ReplayTimeoutError:
    """The error for items that a table did not allow in time, with what is missing."""
    text = f"table {table.name}: {count} {what} were not allowed after {timeout_s:.3g} s"
    return ReplayTimeoutError(f"{text}: {why(table, count, what)}")


def why(table: Table, count: int, what: str) -> str:
    """Why "inserts" or "samples" wait."""
    with table.lock:
        return f"{table.limiter.why(count, what)}, {table.contents.stale} items are stale"


def _rows_of(table: Table, count: int, longest: int, columns: tuple[str, ...]) -> Callable[[], Rows]:
    return lambda: Rows.empty(table.signature, (count, longest), columns=columns)


def _pieces(storage: Storage, column: str, first: torch.Tensor, longest: int) -> list[memoryview]:
    """The bytes of stretches where they lie."""
    size, whole = storage.signature.row_bytes(column), bytes_of(storage.rows.words[column])
    places = first[:, storage.signature.columns.index(column)].tolist()
    return [whole[place * size : (place + longest) * size] for place in places]
