"""A client of a replay server with the interface of Reverb's (Reverb, section 3.8)."""

import os
import secrets
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gmi_drl.errors import GmiWarning
from gmi_drl.replay.client.client import Client as OurClient
from gmi_drl.replay.client.connection import ServerLostError
from gmi_drl.replay.client.sampler import Sampler
from gmi_drl.replay.indices import Integers
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.reverb.columns import Cell, ColumnHistory, TrajectoryColumn
from gmi_drl.replay.reverb.errors import DeadlineExceededError, in_their_words
from gmi_drl.replay.reverb.infos import TableInfo, info_of
from gmi_drl.replay.reverb.nest import Nest, flatten, unflatten_as
from gmi_drl.replay.reverb.patterns import Config
from gmi_drl.replay.reverb.samples import ReplaySample, items_of, steps_of
from gmi_drl.replay.reverb.stream import CellStream
from gmi_drl.replay.reverb.structured_writer import StructuredWriter
from gmi_drl.replay.reverb.trajectory_writer import EPISODE_BITS, TrajectoryWriter, check_item
from gmi_drl.replay.reverb.writer import Writer
from gmi_drl.replay.words import LONGEST_WAIT_S

TOKEN_VARIABLE = "GMI_DRL_REPLAY_TOKEN"
RETRY_S = 0.1
WARN_AFTER_S = 10.0
"""Seconds without a server after which a warning says why."""
MOST_AHEAD = 64
"""Samples that `Client.sample` asks for at once."""


class Client:
    """Calls the tables of a server, which need not run yet: calls wait for it. Several threads may call at once.

    Args:
        server_address: `host:port`.
        token: Of the server; None for what `GMI_DRL_REPLAY_TOKEN` says, if it is set.
    """

    def __init__(self, server_address: str, *, token: str | None = None) -> None:
        self._server_address, self._token = server_address, token
        self._ours = OurClient(server_address, token or os.environ.get(TOKEN_VARIABLE), shared=False)
        self._signatures: dict[str, Nest] = {}
        self._limited = set[str]()  # tables whose items go with a sample
        self._streams: list[CellStream] = []
        self._lock, self._pid = threading.Lock(), os.getpid()

    def __reduce__(self) -> Any:
        return _made, (self._server_address, self._token)

    def __repr__(self) -> str:
        return f"Client, server_address={self._server_address}"

    @property
    def server_address(self) -> str:
        """As given."""
        return self._server_address

    def insert(self, data: Nest, priorities: Mapping[str, float]) -> None:
        """Insert an item of one step into each of these tables. When it returns, it is in.

        Raises:
            ValueError: if there is no table, or the server refuses it.
        """
        if not priorities:
            raise ValueError("priorities must contain at least one item")
        leaves = flatten(data)
        if not leaves:
            raise ValueError("data must contain at least one array")
        columns = [
            TrajectoryColumn([Cell(ColumnHistory(f"column {number}", 1).taken(leaf))])
            for number, leaf in enumerate(leaves)
        ]
        stream = self.take_stream()
        try:
            stream.episode = secrets.randbits(EPISODE_BITS)
            for table, priority in priorities.items():
                check_item(table, priority, columns, self.signature(table), [column.cells[0] for column in columns])
                with in_their_words():
                    stream.create_item(table, float(priority), columns)
            with in_their_words():
                stream.flush(LONGEST_WAIT_S)
        finally:
            self.give_stream(stream)

    def writer(
        self,
        max_sequence_length: int,
        delta_encoded: bool = False,
        chunk_length: int | None = None,
        max_in_flight_items: int | None = 25,
    ) -> Writer:
        """A writer whose items are the last steps.

        Args:
            max_sequence_length: Steps of the longest item.
            delta_encoded: Has no effect: arrays are stored as they are.
            chunk_length: Has no effect, for the same reason.
            max_in_flight_items: Items that are sent and not acknowledged, at most; None for no limit.

        Raises:
            ValueError: if a number is out of range.
        """
        if max_sequence_length < 1:
            raise ValueError(f"max_sequence_length ({max_sequence_length}) must be a positive integer")
        if chunk_length is not None and not 1 <= chunk_length <= max_sequence_length:
            text = f"a positive integer le to max_sequence_length ({max_sequence_length})"
            raise ValueError(f"chunk_length ({chunk_length}) must be {text}")
        if max_in_flight_items is not None and max_in_flight_items < 1:
            raise ValueError(f"max_in_flight_items ({max_in_flight_items}) must be a positive integer")
        return Writer(self, max_sequence_length, max_in_flight_items)

    def trajectory_writer(self, num_keep_alive_refs: int, *, validate_items: bool = True) -> TrajectoryWriter:
        """A writer of trajectories.

        Args:
            num_keep_alive_refs: Steps that its history has.
            validate_items: Whether items are compared with the signature of their table before they are sent.

        Raises:
            ValueError: if the number is below 1.
        """
        if num_keep_alive_refs < 1:
            raise ValueError(f"num_keep_alive_refs ({num_keep_alive_refs}) must be a positive integer")
        return TrajectoryWriter(self, num_keep_alive_refs, validate_items)

    def structured_writer(self, configs: Sequence[Config]) -> StructuredWriter:
        """A writer that makes items by patterns.

        Raises:
            ValueError: if there is no config, or one is invalid.
        """
        if not configs:
            raise ValueError("At least one config must be provided.")
        return StructuredWriter(self, configs)

    def sample(
        self,
        table: str,
        num_samples: int = 1,
        *,
        emit_timesteps: bool = True,
        unpack_as_table_signature: bool = False,
    ) -> Iterator[Any]:
        """Sample items, when they are requested. Waits for the limiter.

        Of a table without `max_times_sampled` up to as many are asked for ahead as were taken before, so that a long
        iteration needs few calls.

        Args:
            table: By name.
            num_samples: Items.
            emit_timesteps: Whether an item is a list of `ReplaySample`, one for each step; else it is one of all.
            unpack_as_table_signature: Whether data has the structure of the table's signature, if there is one.

        Raises:
            RuntimeError: if there is no such table.
            ValueError: if columns have different lengths, so that there are no steps.
        """
        if num_samples < 1:
            raise ValueError(f"num_samples ({num_samples}) must be a positive integer")
        signature = self.signature(table) if unpack_as_table_signature else None
        self._await_server()
        done = 0
        while done < num_samples:
            count = 1 if table in self._limited else min(max(1, done), num_samples - done, MOST_AHEAD)
            with in_their_words(RuntimeError):
                batch = self._ours.sample(table, count, timeout_s=LONGEST_WAIT_S, flexible=True)
            done += len(batch.records)
            if not emit_timesteps:
                for info, columns in items_of(batch):
                    yield ReplaySample(info, columns if signature is None else unflatten_as(signature, columns))
                continue
            for info, steps in steps_of(batch):
                yield [
                    ReplaySample(info, step if signature is None else unflatten_as(signature, step)) for step in steps
                ]

    def mutate_priorities(
        self, table: str, updates: Mapping[int, float] | None = None, deletes: Sequence[int] | None = None
    ) -> None:
        """Delete items, then give others new priorities. Unknown keys are ignored.

        Raises:
            ValueError: if there is no such table, or a priority is negative or no number.
        """
        self._await_server()
        with in_their_words():
            if deletes:
                self._ours.delete(table, _keys_of(deletes))
            if updates:
                self._ours.update(table, _keys_of(updates), np.array([*map(float, updates.values())]))

    def reset(self, table: str) -> None:
        """Delete all items of a table, and set its counts to 0."""
        self._await_server()
        with in_their_words():
            self._ours.reset(table)

    def server_info(self, timeout: float | None = None) -> dict[str, TableInfo]:
        """What all tables are at, by name.

        Args:
            timeout: Seconds to wait; None to wait for a server as long as it takes.

        Raises:
            DeadlineExceededError: if it takes longer.
        """
        told = self._told(timeout)
        infos = {name: info_of(name, table) for name, table in told["tables"].items()}
        self._signatures = {name: info.signature for name, info in infos.items()}
        self._limited = {name for name, info in infos.items() if info.max_times_sampled}
        return infos

    def checkpoint(self) -> str:
        """Let the server write a checkpoint. Returns its folder when it is on the disk."""
        self._await_server()
        with in_their_words():
            return self._ours.checkpoint(int(time.time() * 1000))[0]

    def signature(self, table: str) -> Nest:
        """The signature of a table; None if it has none.

        Raises:
            ValueError: if there is no such table.
        """
        if table not in self._signatures:
            self.server_info()
        signatures = self._signatures  # another thread may get newer ones
        if table not in signatures:
            names = ", ".join(signatures)
            raise ValueError(f'Could not find table "{table}". The following tables exists: {names}.')
        return signatures[table]

    def sampler(self, table: str, size: int, **options: Any) -> Sampler:
        """A sampler of ours, when there is a server; the options are those of `gmi_drl.replay.Client.sampler`."""
        self._await_server()
        with in_their_words(RuntimeError):
            return self._ours.sampler(table, size, **options)

    def take_stream(self) -> CellStream:
        """A stream for a writer, which gives it back."""
        self._own()
        with self._lock:
            while self._streams:
                if (stream := self._streams.pop()).rest():
                    return stream
        self._await_server()
        with in_their_words():
            writer = self._ours.writer(next(iter(self._signatures)), timeout_s=LONGEST_WAIT_S)
        return CellStream(writer)

    def give_stream(self, stream: CellStream) -> None:
        """Take a stream back, to go on in its open block."""
        self._own()
        if stream.rest():
            with self._lock:
                self._streams.append(stream)

    def _own(self) -> None:
        if self._pid != os.getpid():  # in a fork: streams are its parent's
            self._streams, self._lock, self._pid = [], threading.Lock(), os.getpid()

    def _await_server(self) -> None:
        """Wait until there is a server, before the first call."""
        if not self._signatures:
            self.server_info()

    def _told(self, timeout_s: float | None) -> dict[str, Any]:
        """What the server tells, when there is one. After a while a warning says why it waits."""
        began, has_warned = time.monotonic(), False
        deadline = began + (LONGEST_WAIT_S if timeout_s is None else timeout_s)
        while True:
            left = deadline - time.monotonic()
            try:
                return self._ours.info(max(0.1, min(left, 60.0)))[0]
            except (ServerLostError, ReplayTimeoutError) as error:
                if left <= 0:
                    text = f"ServerInfo call did not complete within provided timeout of {timeout_s}s"
                    raise DeadlineExceededError(f"{text}: {error}") from None
                if not has_warned and time.monotonic() - began >= WARN_AFTER_S:
                    has_warned = True
                    warnings.warn(f"{error}; still waiting for it", GmiWarning, stacklevel=2)
            time.sleep(RETRY_S)


def _keys_of(keys: Iterable[int]) -> Integers:
    """Keys, which are uint64 there, as int64 with the same bits.

    Raises:
        ValueError: if one is below 0, or has more than 64 bits.
    """
    numbers = [*map(int, keys)]
    if min(numbers) < 0 or max(numbers) >= 2**64:
        raise ValueError(f"a key is a number of 64 bits, not {next(key for key in numbers if not 0 <= key < 2**64)}")
    return np.array(numbers, dtype=np.uint64).view(np.int64)


def _made(address: str, token: str | None) -> Client:
    return Client(address, token=token)
