"""A client of one replay server, or of several that know nothing of each other (Reverb, section 3.6)."""

import itertools
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gmi_drl.errors import GmiWarning, UsageError
from gmi_drl.replay.client.calls import answer_of, number_of, sampled, send_keys
from gmi_drl.replay.client.connection import CONNECT_S, ServerConnection, ServerLostError, Shared
from gmi_drl.replay.client.pool import Pool
from gmi_drl.replay.client.sampler import Sampler
from gmi_drl.replay.client.samples import ServerBatch, Wish
from gmi_drl.replay.client.writer import Writer
from gmi_drl.replay.indices import Integers, as_integers
from gmi_drl.replay.limiters import WAIT_S, ReplayTimeoutError
from gmi_drl.replay.table import Priorities, checked_priorities
from gmi_drl.replay.words import CHECKPOINT, DELETE, INFO, RESET, UPDATE, Number, check_wait, write

RETRY_S = 10.0
"""Seconds for which a server that could not be reached is left out, if there are others."""


class Client:
    """Calls tables of replay servers. All methods may be called by several threads.

    A call that needs a server connects to it, and again after it was restarted. Nothing is sent twice by itself: if a
    server ends within a call, `ServerLostError` says so.

    Args:
        address: `host:port`, or several: then calls take turns, and batches say which server has their items. A server
            that cannot be reached is left out, with a warning, and tried again later.
        token: Of the servers.
        shared: Whether calls, writers and samplers map the memory of servers: True, False, or "auto" for where that is
            possible. It is for tables of the placement `shared`, on the same host, for the same user.
    """

    def __init__(self, address: str | Sequence[str], token: str | None = None, shared: Shared = "auto") -> None:
        addresses = [address] if isinstance(address, str) else list(address)
        if not addresses:
            raise UsageError("a client needs the address of 1 replay server at least")
        self._pools = [Pool(one, token, shared) for one in addresses]
        self._turns = itertools.count()

    def insert(
        self,
        fields: Mapping[str, Tensor],
        priorities: Mapping[str, float],
        version: int = 0,
        timeout_s: float = WAIT_S,
    ) -> None:
        """Insert an item of n steps into tables of one storage. When it returns, it is in.

        Args:
            fields: `[n, *shape]` of each field.
            priorities: By table.
            version: Of the policy that acted.
            timeout_s: Seconds to wait for room and the limiter, of each table; a day at most.

        Raises:
            ReplayTimeoutError: if a table did not take it in time; `done` says how many have it.
            UsageError: if there is no table, or `timeout_s` is below 0 or above a day.
        """
        if not priorities:
            raise UsageError("an item goes into 1 table at least")
        check_wait(timeout_s)
        _, pool = self._turn()
        with pool.call() as call:
            _, storage = call.connection.table(next(iter(priorities)))
            writer = call.writers.get(storage.number)
            if writer is None:
                writer = call.writers[storage.number] = Writer(call.connection, storage)
            writer.timeout_s = timeout_s
            writer.count_anew()
            first = writer.append(fields)
            for table, priority in priorities.items():
                writer.create_items(table, first, writer.step - first, priority, version)
            writer.flush(timeout_s * len(priorities) + CONNECT_S)
            writer.end_episode()

    def sample(
        self,
        table: str,
        count: int,
        *,
        columns: tuple[str, ...] | None = None,
        distinct: bool = False,
        newer_than: int | None = None,
        timeout_s: float = WAIT_S,
        flexible: bool = False,
    ) -> ServerBatch:
        """Sample `count` items, when the limiter allows all of them; as `Table.sample`.

        With `flexible` it may be fewer, as many as the limiter allows, 1 at least.

        Raises:
            ReplayTimeoutError: if it did not in time, with what is missing.
            UsageError: if it never will, or `timeout_s` is below 0 or above a day.
        """
        wish = Wish(table, count, columns, distinct, newer_than, flexible, timeout_s)
        server, pool = self._turn()
        with pool.call() as call:
            return sampled(call.connection, wish, server)

    def update(self, table: str, keys: Tensor | Integers, priorities: Priorities, server: int = 0) -> int:
        """Give items other priorities. Returns how many of the keys `[n]` are items; others are ignored.

        Args:
            table: By name.
            keys: Of a batch.
            priorities: Of all, or `[n]`.
            server: Of the batch.

        Raises:
            UsageError: if a priority is negative or no finite number, or there are as many as neither keys nor 1.
        """
        values = checked_priorities(priorities, len(keys))
        return self._keys(UPDATE, table, server, keys, values)

    def delete(self, table: str, keys: Tensor | Integers, server: int = 0) -> int:
        """Delete items. Returns how many there were; unknown keys are ignored."""
        return self._keys(DELETE, table, server, keys)

    def reset(self, table: str) -> None:
        """Delete all items of a table, on all servers, and set its counts to 0."""
        for pool in self._pools:
            with pool.call() as call:
                number, _ = call.connection.table(table)
                number_of(call.connection, RESET, number)

    def info(self, timeout_s: float = 10.0) -> list[dict[str, Any]]:
        """What each server is at, in the order of the addresses.

        Raises:
            ServerLostError: if one cannot be reached.
            ReplayTimeoutError: if one does not answer in time.
        """
        found = []
        for pool in self._pools:
            with pool.call(timeout_s) as call:
                message = write(Number(request := call.connection.next_request(), 0))
                found.append(answer_of(call.connection, INFO, message, request, time.monotonic() + timeout_s))
        return found

    def checkpoint(self, trainer_step: int = 0, timeout_s: float = 3600.0) -> list[str]:
        """Let all servers write a checkpoint. Returns their folders when all is on the disks.

        What was acknowledged before the call is in it; traffic goes on meanwhile.

        Raises:
            UsageError: if a server has no folder for checkpoints.
            MachineError: if one cannot be written; the server goes on.
        """
        folders = []
        for pool in self._pools:
            with pool.call() as call:
                message = write(Number(request := call.connection.next_request(), trainer_step))
                deadline = time.monotonic() + timeout_s
                folders.append(answer_of(call.connection, CHECKPOINT, message, request, deadline)["folder"])
        return folders

    def writer(self, table: str, max_in_flight_items: int = 65_536, timeout_s: float = WAIT_S) -> Writer:
        """A writer to the storage of a table, and to all tables of that storage. Of several servers the next one.

        Args:
            table: By name.
            max_in_flight_items: As of `Writer`.
            timeout_s: As of `Writer`.
        """
        connection = self._turn()[1].connect()
        try:
            return Writer(connection, connection.table(table)[1], max_in_flight_items, timeout_s)
        except BaseException:
            connection.close()
            raise

    def sampler(
        self,
        table: str,
        batch: int,
        *,
        max_in_flight: int = 1024,
        workers: int = 1,
        columns: tuple[str, ...] | None = None,
        distinct: bool = False,
        timeout_s: float = WAIT_S,
        flexible: bool = False,
        most: int | None = None,
    ) -> Sampler:
        """An iterator of batches of all servers.

        Args:
            table: By name.
            batch: Items of each.
            max_in_flight: Samples that each worker asks for ahead.
            workers: Connections to each server.
            columns: As of `sample`.
            distinct: As of `sample`.
            timeout_s: Seconds that a batch may wait for the limiter, a day at most; then the iteration ends.
            flexible: Whether a batch may have fewer items, as many as the limiter allows.
            most: Items in all, the last batch may have fewer; then the iteration ends. None for no limit.

        Raises:
            ServerLostError: if no server can be reached. Of several, those that cannot are left out, with a warning.
        """
        if batch < 1 or workers < 1 or max_in_flight < 1:
            text = f"batch {batch}, workers {workers} and max_in_flight {max_in_flight}"
            raise UsageError(f"{text} must be 1 at least")
        wish = Wish(table, batch, columns, distinct, None, flexible, timeout_s)
        connections = list[tuple[int, ServerConnection]]()
        try:
            for server, pool in enumerate(self._pools):
                if pool.lost_until > time.monotonic():
                    continue
                try:
                    for _ in range(workers):
                        connections.append((server, pool.connect(writes=False)))
                except (ServerLostError, ReplayTimeoutError) as error:
                    if len(self._pools) == 1:
                        raise
                    _leave_out(pool, error)
            if not connections:
                raise self._none_left()
            for _, connection in connections:
                wish.chosen(connection.table(table)[1])
            return Sampler(connections, wish, max_in_flight, most)
        except BaseException:
            for _, connection in connections:
                connection.close()
            raise

    def close(self) -> None:
        """Close all connections of calls. Writers and samplers have their own."""
        for pool in self._pools:
            pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keys(self, kind: int, table: str, server: int, keys: Tensor | Integers, *values: NDArray[np.float64]) -> int:
        if not 0 <= server < len(self._pools):
            raise UsageError(f"there is no server {server}, only {len(self._pools)}")
        wanted = as_integers(keys)
        if not wanted.size:
            return 0
        with self._pools[server].call() as call:
            return send_keys(call.connection, kind, call.connection.table(table)[0], wanted, *values)

    def _turn(self) -> tuple[int, Pool]:
        """The next server; of several one that can be reached. One that cannot is left out for a while.

        Raises:
            ServerLostError: if none can be reached.
        """
        if len(self._pools) == 1:
            return 0, self._pools[0]
        for _ in self._pools:
            server = next(self._turns) % len(self._pools)
            pool = self._pools[server]
            if pool.lost_until > time.monotonic():
                continue
            try:
                with pool.call():
                    return server, pool
            except (ServerLostError, ReplayTimeoutError) as error:
                _leave_out(pool, error)
        raise self._none_left()

    def _none_left(self) -> ServerLostError:
        addresses = ", ".join(pool.address for pool in self._pools)
        return ServerLostError(f"none of the replay servers {addresses} can be reached: do they run?")


def _leave_out(pool: Pool, error: Exception) -> None:
    """Do not ask a server for a while; the first time that is told."""
    if not pool.lost_until:
        warnings.warn(f"{error}; the other servers go on", GmiWarning, stacklevel=4)
    pool.lost_until = time.monotonic() + RETRY_S
