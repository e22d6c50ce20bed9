"""Asks a replay server for batches, and receives them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gmi_drl.errors import UsageError, did_you_mean
from gmi_drl.replay.batch import Batch, gather_items
from gmi_drl.replay.client.connection import RemoteStorage, ServerConnection
from gmi_drl.replay.items import STRETCHES
from gmi_drl.replay.limiters import WAIT_S
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.words import (
    DISTINCT,
    FLEXIBLE,
    PLACES,
    RELEASE,
    SAMPLE,
    Number,
    Sample,
    Samples,
    WordError,
    arrays,
    bytes_of,
    check_request,
    check_wait,
    read,
    write,
)


@dataclass(frozen=True)
class ServerBatch(Batch):
    """A batch of a replay server.

    Args:
        server: Which of the client's servers has its items, for `Client.update`.
    """

    server: int = 0


@dataclass(frozen=True)
class Wish:
    """What a batch is to be.

    Args:
        table: By name.
        count: Items.
        columns: Of the storage; None for all.
        distinct: Whether no item may be there twice.
        newer_than: Items of this version and older ones are not drawn, from now on.
        flexible: Whether fewer items will do, as many as the limiter allows.
        timeout_s: Seconds to wait for the limiter, a day at most.

    Raises:
        UsageError: if the server does not let it wait that long.
    """

    table: str
    count: int
    columns: tuple[str, ...] | None = None
    distinct: bool = False
    newer_than: int | None = None
    flexible: bool = False
    timeout_s: float = WAIT_S

    def __post_init__(self) -> None:
        check_wait(self.timeout_s)

    def message(self, request: int, table: int, storage: RemoteStorage, in_place: bool) -> list[bytes | memoryview]:
        """The message that asks for it; `in_place` if the rows are read in shared memory.

        Raises:
            UsageError: if there is no such column.
        """
        flags = FLEXIBLE * self.flexible | DISTINCT * self.distinct | PLACES * in_place
        newer_than = -1 if self.newer_than is None else self.newer_than
        columns = sum(1 << storage.signature.columns.index(name) for name in self.chosen(storage))
        return write(Sample(request, table, self.count, flags, columns, newer_than, self.timeout_s))

    def chosen(self, storage: RemoteStorage) -> tuple[str, ...]:
        """The columns, in the order of the storage."""
        known = storage.signature.columns
        for name in self.columns or ():
            if name not in known:
                raise UsageError(f"table {self.table} has no column {name!r}{did_you_mean(name, known)}")
        return tuple(name for name in known if self.columns is None or name in self.columns)

    def ask(self, connection: ServerConnection) -> int:
        """Ask a server for it. Returns the number of the request."""
        number, storage = connection.table(self.table)
        is_mapped = connection.memory is not None and connection.memory.has(storage)
        message = self.message(request := connection.next_request(), number, storage, is_mapped)
        connection.framed.send_together([(SAMPLE, message)])
        return request

    def receive(self, connection: ServerConnection, message: bytes, request: int, server: int) -> ServerBatch:
        """The batch that a server has sent. Its rows are there as soon as the connection does not receive.

        Raises:
            WordError: if it answers another request.
            LeaseLostError: if this process stood still while it read shared memory.
        """
        storage = connection.table(self.table)[1]
        word, rest = read(Samples, message)
        check_request(word.request, request)
        records = (word.count, STRETCHES + len(storage.signature.columns))
        probabilities, of_items = arrays(rest, ((word.count,), torch.float64), (records, torch.int64))
        if word.ticket >= 0:
            rows = _read_in_place(connection, storage, of_items, self.chosen(storage), word.ticket)
        else:
            rows = Rows.empty(storage.signature, (word.count, word.longest), columns=self.chosen(storage))
            connection.framed.receive_data(*(bytes_of(words) for words in rows.words.values()))
        return ServerBatch(rows, of_items, probabilities, word.table_size, server)


def _read_in_place(
    connection: ServerConnection, storage: RemoteStorage, records: Tensor, columns: tuple[str, ...], ticket: int
) -> Rows:
    if connection.memory is None:
        raise WordError("a server that shares no memory tells places")
    rows = gather_items(connection.memory.storage(storage), records, columns)
    connection.framed.send_frame(RELEASE, b"".join(map(bytes, write(Number(0, ticket)))))
    connection.memory.check(ticket)
    return rows
