"""A client, as its server sees it: frames, streams that it writes, rows that it gets, and the request that waits."""

import math
import time
from collections.abc import Callable, Mapping, Sequence

from gmi_drl.comm.links.framing import DATA, FramedConnection
from gmi_drl.errors import GmiError
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.server.requests import Request
from gmi_drl.replay.storage import Storage
from gmi_drl.replay.stream import Stream
from gmi_drl.replay.words import ERROR, WordError, to_json

COPY_AFTER_S = 0.05
"""Seconds after which rows that a client has not read are copied, so that their blocks can be written again."""

LEASES = 64
"""Batches that a client may be lent at once. Ours reads and gives back one before it asks for the next."""

_SPARE = 4  # buffers of one size that a connection keeps

Frames = list[tuple[int, Sequence[memoryview | bytes]]]


class Connection:
    """What a server knows of one client.

    Args:
        framed: Its frames.
        name: For messages and the log.
        number: No other open connection's.
        storages: Those of the server, with the names of their tables.

    Attributes:
        parked: The request that waits for its table; meanwhile nothing more is read.
        reading_since: When the client last took some of what is sent to it, or the sending began.
        lease_word: Shared with a client that maps the storages: its leases below this ticket were taken back.
    """

    def __init__(
        self, framed: FramedConnection, name: str, number: int, storages: Mapping[Storage, tuple[str, ...]]
    ) -> None:
        self.framed, self.name, self.number = framed, name, number
        self.parked: Request | None = None
        self.reading_since = time.monotonic()
        self._storages, self._tables = tuple(storages), storages
        self._streams: dict[int, Stream] = {}
        self._when_arrived: Callable[[], None] | None = None
        self._spare: dict[tuple[object, ...], list[Rows]] = {}
        self._lent: list[tuple[tuple[object, ...], Rows]] = []
        self._held: list[tuple[Storage, int]] = []
        self._taken = 0
        self.lease_word: memoryview | None = None
        self._leases: dict[int, tuple[Storage, int, float]] = {}
        self._tickets = 0

    def storage(self, number: int) -> Storage:
        """A storage of the server.

        Raises:
            WordError: if there is none of this number.
        """
        if number >= len(self._storages):
            raise WordError(f"there is no storage {number}, only {len(self._storages)}")
        return self._storages[number]

    def tables_of(self, storage: Storage) -> tuple[str, ...]:
        """The names of a storage's tables."""
        return self._tables[storage]

    def stream(self, number: int) -> Stream:
        """What this client writes to a storage."""
        if number not in self._streams:
            self._streams[number] = Stream(self.storage(number), holder=self.number)
        return self._streams[number]

    def receive(self, targets: Sequence[memoryview], then: Callable[[], None]) -> None:
        """Receive rows into these bytes, then call a function."""
        self.framed.receive_data(*targets)
        self._when_arrived = then

    def settle(self) -> None:
        """Call what waits for rows, if they have all come."""
        if self._when_arrived is not None and not self.framed.is_receiving:
            then, self._when_arrived = self._when_arrived, None
            then()

    def send(self, kind: int, pieces: Sequence[memoryview | bytes]) -> None:
        """Send a message."""
        self.framed.send_together([(kind, pieces)])

    def send_error(self, request: int, error: Exception, done: int = 0) -> None:
        """Tell why a request failed."""
        known = isinstance(error, GmiError)
        kind = type(error).__name__ if known else "GmiError"
        text = str(error) if known else f"the server's table failed: {type(error).__name__}: {error}"
        self.send(ERROR, [to_json(request, {"kind": kind, "message": text, "done": done})])

    def buffer(self, key: tuple[object, ...], make: Callable[[], Rows]) -> Rows:
        """Rows to send, of an earlier answer where the client has it all. They return when they are sent."""
        spare = self._spare.get(key)
        rows = spare.pop() if spare else make()
        self._lent.append((key, rows))
        return rows

    def send_rows(self, kind: int, pieces: Sequence[memoryview | bytes], data: Sequence[Sequence[memoryview]]) -> None:
        """Send a message and a frame of rows for each column."""
        frames: Frames = [(kind, pieces), *((DATA, views) for views in data)]
        self.framed.send_together(frames)
        self.flushed()

    def hold(self, storage: Storage, reading: int) -> None:
        """End a reading of a storage when all is sent."""
        self._held.append((storage, reading))

    def check_leases(self) -> None:
        """Raise unless the client may be lent a further batch.

        Raises:
            WordError: if it has given back too few.
        """
        if len(self._leases) >= LEASES:
            raise WordError(f"it keeps {len(self._leases)} batches that it was lent: {LEASES} are the most")

    def lend(self, storage: Storage, reading: int) -> int:
        """End a reading of a storage when the client has read what it is told. Returns a ticket for `give_back`."""
        self._tickets += 1
        self._leases[self._tickets] = storage, reading, time.monotonic()
        return self._tickets

    def give_back(self, ticket: int) -> None:
        """The client has read what a ticket is for. It may have been taken back before."""
        if not 1 <= ticket <= self._tickets:
            raise WordError(f"there was no lease {ticket}")
        self._end_lease(ticket)

    def take_back(self, older_than: float) -> None:
        """Take back leases from before a moment. The client sees that after its copy, and does not use it."""
        for ticket in [one for one, (*_, since) in self._leases.items() if since < older_than]:
            assert self.lease_word is not None
            self.lease_word[0] = ticket + 1  # before others write there
            self._end_lease(ticket)

    def _end_lease(self, ticket: int) -> None:
        if ticket in self._leases:
            storage, reading, _ = self._leases.pop(ticket)
            storage.end_reading(reading)

    def flushed(self) -> None:
        """See what the client has taken: buffers and blocks of what is sent are free again."""
        if not self.framed.is_sending:
            for key, rows in self._lent:
                spare = self._spare.setdefault(key, [])
                if len(self._spare) > _SPARE:
                    self._spare = {key: spare}
                if len(spare) < _SPARE:
                    spare.append(rows)
            self._lent.clear()
            self._release()
        if self.framed.taken != self._taken or not self.framed.is_sending:
            self._taken, self.reading_since = self.framed.taken, time.monotonic()

    def look(self, now: float) -> None:
        """Copy what the client has not read for a while, so that others need not wait for it."""
        if self._held and self.framed.is_sending and now - self.reading_since > COPY_AFTER_S:
            self.framed.copy_unsent()
            self._release()

    def close(self) -> None:
        """End the connection: open blocks and whatever was kept for it are given back."""
        self.framed.close()
        self._release()
        self.take_back(math.inf)
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()
        self.parked = self._when_arrived = None

    def _release(self) -> None:
        for storage, reading in self._held:
            storage.end_reading(reading)
        self._held.clear()
