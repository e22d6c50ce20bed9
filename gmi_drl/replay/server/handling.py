"""What a server does with each message of a client."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.server.connection import Connection
from gmi_drl.replay.server.requests import (
    ItemsRequest,
    LeaseRequest,
    Request,
    StepsRequest,
    check_shared,
)
from gmi_drl.replay.server.sampling import SampleRequest
from gmi_drl.replay.storage import Storage
from gmi_drl.replay.storage.shared import SharedStorage
from gmi_drl.replay.table import Table
from gmi_drl.replay.words import (
    CHECKPOINT,
    DELETE,
    DONE,
    INFO,
    ITEMS,
    ITEMS_AT_ONCE,
    LEASE,
    RELEASE,
    RESET,
    SAMPLE,
    STEPS,
    UPDATE,
    VERSION,
    Items,
    Keys,
    Number,
    Sample,
    Steps,
    WordError,
    arrays,
    numbers,
    read,
    to_json,
    write,
)

Checkpoint = Callable[[Connection, int, int], None]


class Handler:
    """Turns messages into requests, and does at once what never waits.

    Args:
        tables: Of the server, each with a name of its own.
        info: What INFO answers.
        checkpoint: Begins a checkpoint for a connection and a request, with a step.

    Attributes:
        shared_name: Of the socket for clients that share memory; None if there is none.
    """

    def __init__(self, tables: Sequence[Table], info: Callable[[], dict[str, Any]], checkpoint: Checkpoint) -> None:
        self.tables = tuple(tables)
        self.storages: dict[Storage, tuple[str, ...]] = {
            storage: tuple(table.name for table in tables if table.storage is storage)
            for storage in dict.fromkeys(table.storage for table in tables)
        }
        self._numbers = {storage: number for number, storage in enumerate(self.storages)}
        self.shared_name: str | None = None
        self._info, self._checkpoint = info, checkpoint
        self._kinds: dict[int, Callable[[Connection, bytes], Request | None]] = {
            STEPS: self._steps,
            ITEMS: self._items,
            SAMPLE: self._sample,
            UPDATE: self._update,
            DELETE: self._delete,
            RESET: self._reset,
            LEASE: self._lease,
            RELEASE: self._release,
            INFO: self._tell,
            CHECKPOINT: self._save,
        }

    def welcome(self) -> dict[str, Any]:
        """What a client is told first: the tables, how their steps lie, and where clients of this host connect."""
        return {
            "shared": self.shared_name,
            "version": VERSION,
            "tables": [{"name": table.name, "storage": self._number_of(table)} for table in self.tables],
            "storages": [
                {
                    "signature": storage.signature.to_json(),
                    "steps": storage.steps,
                    "longest": storage.longest,
                    "block_steps": storage.blocks.block_steps,
                    "is_shared": isinstance(storage, SharedStorage),
                }
                for storage in self.storages
            ],
        }

    def handle(self, connection: Connection, kind: int, message: bytes) -> Request | None:
        """Do what a message asks for. Returns a request that may have to wait.

        Raises:
            WordError: if the client has sent something that it may not send.
        """
        if kind not in self._kinds:
            raise WordError(f"there is no request of kind {kind}")
        return self._kinds[kind](connection, message)

    def _steps(self, connection: Connection, message: bytes) -> Request:
        word, rest = read(Steps, message)
        arrays(rest)
        return StepsRequest(connection, word)

    def _lease(self, connection: Connection, message: bytes) -> Request:
        word, rest = read(Steps, message)
        arrays(rest)
        check_shared(connection, connection.storage(word.storage))
        return LeaseRequest(connection, word)

    def _release(self, connection: Connection, message: bytes) -> None:
        word, rest = read(Number, message)
        arrays(rest)
        connection.give_back(word.number)

    def _items(self, connection: Connection, message: bytes) -> Request:
        word, rest = read(Items, message)
        table = self._table(word.table)
        return ItemsRequest(connection, word, rest, table, self._number_of(table))

    def _sample(self, connection: Connection, message: bytes) -> Request | None:
        word, rest = read(Sample, message)
        arrays(rest)
        try:
            return SampleRequest(connection, word, self._table(word.table))
        except UsageError as error:
            connection.send_error(word.request, error)
            return None

    def _update(self, connection: Connection, message: bytes) -> None:
        word, rest = self._keys(message)
        keys, priorities = numbers(rest, ((word.count,), torch.int64), ((word.count,), torch.float64))
        self._answer(connection, word.request, lambda: self._table(word.table).update(keys, priorities))

    def _delete(self, connection: Connection, message: bytes) -> None:
        word, rest = self._keys(message)
        (keys,) = arrays(rest, ((word.count,), torch.int64))
        self._answer(connection, word.request, lambda: self._table(word.table).delete(keys))

    def _reset(self, connection: Connection, message: bytes) -> None:
        word, rest = read(Number, message)
        arrays(rest)
        table = self._table(word.number)

        def reset() -> int:
            table.reset()
            return 0

        self._answer(connection, word.request, reset)

    def _tell(self, connection: Connection, message: bytes) -> None:
        word, _ = read(Number, message)
        connection.send(INFO, [to_json(word.request, self._info())])

    def _save(self, connection: Connection, message: bytes) -> None:
        word, rest = read(Number, message)
        arrays(rest)
        try:
            self._checkpoint(connection, word.request, word.number)
        except Exception as error:
            connection.send_error(word.request, error)

    def _keys(self, message: bytes) -> tuple[Keys, memoryview]:
        word, rest = read(Keys, message)
        if not 1 <= word.count <= ITEMS_AT_ONCE:
            raise WordError(f"{word.count} keys, 1 to {ITEMS_AT_ONCE} are allowed")
        return word, rest

    def _answer(self, connection: Connection, request: int, do: Callable[[], int]) -> None:
        """Send the number that something returns, or its error. A mistake of the client's program is one, too."""
        try:
            done = do()
        except WordError:
            raise
        except Exception as error:
            connection.send_error(request, error)
        else:
            connection.send(DONE, write(Number(request, done)))

    def _table(self, number: int) -> Table:
        if not 0 <= number < len(self.tables):
            raise WordError(f"there is no table {number}, only {len(self.tables)}")
        return self.tables[number]

    def _number_of(self, table: Table) -> int:
        return self._numbers[table.storage]
