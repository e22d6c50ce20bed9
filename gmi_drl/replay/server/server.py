"""A replay server: tables behind a port, in a thread of this process."""

import ipaddress
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.replay.server.checkpoints import LAST, Checkpoints
from gmi_drl.replay.server.handling import Handler
from gmi_drl.replay.server.loop import Loop
from gmi_drl.replay.table import Table
from gmi_drl.replay.words import NO_TOKEN, check_byte_order

if TYPE_CHECKING:
    from gmi_drl.replay.client.client import Client

HANG_S = 600.0
"""Seconds after which a client is cut off that does not read what it has asked for."""


class Server:
    """Serves tables until it is stopped. This process may use the tables meanwhile, too.

    Args:
        tables: At least one; no two of one name.
        port: Where to listen; 0 for any.
        host: The address to listen at. Others than those of this machine alone need a token.
        token: 32 letters that all clients have.
        checkpoints: The folder of the checkpoints; None for none.
        shard: The number of this server among those that have the same tables and checkpoints.
        shards: How many those are. What further ones have written to the folder of a checkpoint is removed.
        restore: A checkpoint to begin with, the folder of a step.
        hang_s: As `HANG_S`.

    Attributes:
        port: Where it listens.
        host: As given.
        failure: The fault of ours that has ended it, if one has.

    Raises:
        UsageError: if there is no table or shard, a name is there twice, no token, or the checkpoint is another's.
        MachineError: if nothing can listen there.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        port: int = 0,
        host: str = "127.0.0.1",
        token: str | None = None,
        checkpoints: Path | None = None,
        shard: int = 0,
        shards: int = 1,
        restore: Path | None = None,
        hang_s: float = HANG_S,
    ) -> None:
        check_byte_order()
        names = [table.name for table in tables]
        if not names:
            raise UsageError("a replay server needs 1 table at least")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(f"tables are there twice: {', '.join(twice)}")
        if not 0 <= shard < shards:
            raise UsageError(f"shard {shard} is none of {shards}, which are numbered from 0")
        if token is None and not _is_loopback(host):
            raise UsageError(f"{host} can be reached from other machines: give a token, or listen at 127.0.0.1")
        self._token, self._checkpoints = token, Checkpoints(tables, checkpoints, shard, shards)
        if restore is not None:
            self._checkpoints.restore(restore)
        self._listener = _listen(host, port)
        self.host, self.port = host, self._listener.getsockname()[1]
        self._began = time.monotonic()
        self._handler = Handler(tables, self.info, self._begin_checkpoint)
        self._loop = Loop(self._listener, token or NO_TOKEN, self._handler, hang_s)
        self._ended = threading.Event()  # Thread.join that a signal interrupts takes the thread for ended
        self.failure: Exception | None = None
        threading.Thread(target=self._run, name=f"replay server {self.port}", daemon=True).start()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables, in order."""
        return self._handler.tables

    @property
    def address(self) -> str:
        """`host:port`, for clients."""
        return f"{self.host}:{self.port}"

    def client(self) -> "Client":
        """A client of this server."""
        from gmi_drl.replay.client.client import Client

        return Client(self.address, token=self._token)

    def info(self) -> dict[str, Any]:
        """What tables, clients and the process are at: plain numbers and texts."""
        tables = {table.name: table.info() for table in self.tables}
        for entry in tables.values():
            entry |= {"waiting_inserts": 0, "waiting_samples": 0, "waiting_blocks": 0}
        waiting = self._loop.waiting()
        for connection in waiting:
            if (request := connection.parked) is None:
                continue
            for name in request.tables:
                tables[name][f"waiting_{request.waits_for}"] += 1
                tables[name].setdefault("why", f"{request.waits_for} wait: {request.why()}")
        clients = list(self._loop.connections.values())
        return {
            "tables": tables,
            "clients": len(clients),
            "received_bytes": self._loop.received + sum(one.framed.received for one in clients),
            "sent_bytes": self._loop.sent + sum(one.framed.sent for one in clients),
            "seconds": time.monotonic() - self._began,
            "trainer_step": self._checkpoints.trainer_step,
        }

    def checkpoint(self, trainer_step: int = LAST, timeout_s: float = 3600.0) -> Path:
        """Write a checkpoint of all tables. Returns its folder when all is on the disk.

        Args:
            trainer_step: Names the folder; without one that is `last`.
            timeout_s: Seconds to wait.

        Raises:
            UsageError: if the server has no folder for checkpoints, or one is being written.
            MachineError: if it cannot be written.
        """
        self._checkpoints.wait()
        with self.client() as client:
            return Path(client.checkpoint(trainer_step, timeout_s=timeout_s)[0])

    def stop(self) -> None:
        """End all connections. Requests that wait end with an error at their clients."""
        if not self._ended.is_set():
            self._loop.stop()
            self._ended.wait()
        self._checkpoints.wait()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is stopped. Returns whether it is."""
        return self._ended.wait(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._loop.run()
        except Exception as error:
            self.failure = error
            raise
        finally:
            self._ended.set()

    def _begin_checkpoint(self, connection: Any, request: int, step: int) -> None:
        self._checkpoints.begin(connection, request, step, self._loop.call)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MachineError(f"cannot listen at {host}:{port}: {reason}: take another --port, or 0 for any") from None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
