"""A replay server with the interface of Reverb's."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self
from weakref import finalize

from gmi_drl.replay.reverb.checkpointers import CheckpointerBase, default_checkpointer
from gmi_drl.replay.reverb.client import TOKEN_VARIABLE, Client
from gmi_drl.replay.reverb.errors import in_their_words
from gmi_drl.replay.reverb.storage import CellStorage
from gmi_drl.replay.reverb.tables import Table
from gmi_drl.replay.server import server

MEMORY_BYTES, ITEM_BYTES = 4 * 2**30, 8 * 2**20


class Server:
    """Serves tables until it is stopped, in a thread of this process.

    Args:
        tables: At least one; no two of one name.
        port: Where to listen; None for any.
        checkpointer: Where checkpoints go; the server begins with its newest one. None for a temporary folder.
        host: The address to listen at. Others than those of this machine alone need a token.
        token: 32 letters that all clients have; None for what `GMI_DRL_REPLAY_TOKEN` says, if it is set.
        memory_bytes: For the items of all tables. Pages are taken as they are needed. When it is full, items are
            removed that cost least, also below `max_size` of their tables.
        item_bytes: Of the largest item.

    Attributes:
        port: Where it listens.

    Raises:
        ValueError: if there is no table, a name is there twice, or the checkpoint is of other tables.
        ReverbError: if nothing can listen there, or there is not as much memory.
    """

    def __init__(
        self,
        tables: Sequence[Table] | None = None,
        port: int | None = None,
        checkpointer: CheckpointerBase | None = None,
        *,
        host: str = "127.0.0.1",
        token: str | None = None,
        memory_bytes: int = MEMORY_BYTES,
        item_bytes: int = ITEM_BYTES,
    ) -> None:
        if not tables:
            raise ValueError("At least one table must be provided")
        names = [table.name for table in tables]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"Multiple items in tables have the same name: {', '.join(twice)}")
        self._checkpointer = checkpointer or default_checkpointer()
        self._token = token or os.environ.get(TOKEN_VARIABLE)
        with in_their_words():
            made = []
            try:
                storage = CellStorage(memory_bytes, item_bytes)
                for table in tables:
                    made.append(table.make(storage))  # noqa: PERF401 - those before one that fails count
                folder, newest = Path(self._checkpointer.path), self._checkpointer.newest
                self._server = server.Server(made, port or 0, host, self._token, folder, restore=newest)
            except BaseException:
                for table in tables[: len(made)]:  # the next one may have another server
                    table.unmake()
                if checkpointer is None:
                    _remove(self._checkpointer.path)
                raise
        self.port = self._server.port
        self._end = finalize(self, _stop, self._server, self._checkpointer.path if checkpointer is None else None)

    def localhost_client(self) -> Client:
        """A client of this server."""
        return Client(f"localhost:{self.port}", token=self._token)

    def stop(self) -> None:
        """End all connections. It is stopped with the object, too, and with the process."""
        self._end()

    def wait(self) -> None:
        """Wait until it is stopped."""
        self._server.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Server(port={self.port}, tables={[table.name for table in self._server.tables]})"


def _stop(stopped: server.Server, temporary: str | None) -> None:
    stopped.stop()
    if temporary is not None:
        _remove(temporary)


def _remove(temporary: str) -> None:
    with suppress(OSError):  # it has checkpoints
        os.rmdir(temporary)
