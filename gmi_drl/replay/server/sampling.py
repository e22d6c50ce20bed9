"""A request for a batch: waits for the limiter of its table, and sends rows, or tells where they are."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.batch import Selection
from gmi_drl.replay.items import LENGTH_BITS, LONGEST, STRETCHES
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.server.requests import check_shared, late, why
from gmi_drl.replay.storage import Storage
from gmi_drl.replay.table import Table
from gmi_drl.replay.words import (
    DATA_BYTES,
    DISTINCT,
    FLEXIBLE,
    PLACES,
    REPLY_BYTES,
    SAMPLES,
    SAMPLES_AT_ONCE,
    Sample,
    Samples,
    WordError,
    bytes_of,
    write,
)

if TYPE_CHECKING:
    from gmi_drl.replay.server.connection import Connection

UNCOPIED_BYTES = 16 * 1024
"""Items of this size and more are sent from where they lie, without a copy."""

FEW = 16
"""So many items and fewer are, too: a gather takes longer."""


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
        self._of_columns = [STRETCHES + names.index(name) for name in self._columns]  # where records have them
        row_bytes = [table.signature.row_bytes(name) for name in self._columns]
        self._row_bytes, self._smallest = max(row_bytes), min(row_bytes)
        self._of_records = (REPLY_BYTES - Samples.layout.size) // (8 * (1 + STRETCHES + len(names)))
        self._connection, self._word, self._table = connection, word, table
        self._check_count()
        self.deadline, self.tables = time.monotonic() + word.timeout_s, [table.name]
        if word.flags & PLACES:
            check_shared(connection, table.storage)
            connection.check_leases()

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
            self._check_count()  # again: longer items may have come since it was asked for
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

    def _check_count(self) -> None:
        """Raise unless a batch may have as many items."""
        word, most = self._word, self._most()
        if word.count < 1 or (word.count > most and not word.flags & FLEXIBLE):
            raise UsageError(f"table {self._table.name}: a batch has 1 to {most} items of this size, not {word.count}")

    def _most(self) -> int:
        """Items that a batch may have, if all are as long as the longest so far."""
        longest = self._table.contents.longest
        return max(1, min(SAMPLES_AT_ONCE, self._of_records, DATA_BYTES // (self._row_bytes * longest)))

    def _data(self, records: torch.Tensor) -> tuple[list[list[memoryview]], int, bool]:
        """The rows of the items, for each column in pieces, the longest item's steps, and whether it is no copy."""
        table, count = self._table, len(records)
        storage, stretches = table.storage, records.numpy()[:, self._of_columns]
        longest, is_even = 1, True
        if storage.longest > 1:
            steps = stretches & LONGEST
            longest = int(steps.max())
            is_even = steps.size == 1 or int(steps.min()) == longest
        if storage.is_direct and is_even and (count <= FEW or self._smallest * longest >= UNCOPIED_BYTES):
            places = (stretches >> LENGTH_BITS).T.tolist()
            named = zip(self._columns, places, strict=True)
            pieces = [_pieces(storage, name, at, longest) for name, at in named]
            return pieces, longest, True
        key = (id(table), count, longest, self._columns)
        out = self._connection.buffer(key, _rows_of(table, count, longest, self._columns))
        table.gather(records, self._columns, out)
        return [[bytes_of(out.words[name])] for name in self._columns], longest, False


def _rows_of(table: Table, count: int, longest: int, columns: tuple[str, ...]) -> Callable[[], Rows]:
    return lambda: Rows.empty(table.signature, (count, longest), columns=columns)


def _pieces(storage: Storage, column: str, places: list[int], longest: int) -> list[memoryview]:
    """The bytes of stretches where they lie."""
    size, whole = storage.signature.row_bytes(column), bytes_of(storage.rows.words[column])
    return [whole[place * size : (place + longest) * size] for place in places]
