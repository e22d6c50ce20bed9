"""Connections to one server that are used again: each call takes one, so that several threads may call at once."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gmi_drl.replay.client.connection import CONNECT_S, ServerConnection, Shared
from gmi_drl.replay.client.writer import Writer

_MOST = 8  # idle connections


class Call:
    """A connection that a call has taken, with a writer for each storage that calls have inserted to by it."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection, self.writers = connection, dict[int, Writer]()


class Pool:
    """Idle connections to a server.

    Args:
        address: `host:port`.
        token: Of the server.
        shared: As of `ServerConnection`.

    Attributes:
        lost_until: By `time.monotonic`: the server could not be reached, so others are asked until then.
    """

    def __init__(self, address: str, token: str | None, shared: Shared) -> None:
        self.address, self._token, self._shared = address, token, shared
        self.lost_until = 0.0
        self._idle, self._lock, self._pid = list[Call](), threading.Lock(), os.getpid()

    def connect(self, timeout_s: float = CONNECT_S, *, writes: bool = True) -> ServerConnection:
        """A new connection, for the caller alone."""
        return ServerConnection(self.address, self._token, timeout_s, self._shared, writes=writes)

    @contextmanager
    def call(self, timeout_s: float = CONNECT_S) -> Iterator[Call]:
        """A connection for the time of a `with` block. One whose block ends with an error of ours is closed.

        Connections whose server ended meanwhile are not used again: a call after its restart makes a new one.
        """
        call = self._take() or Call(self.connect(timeout_s))
        try:
            yield call
        except BaseException:
            call.connection.close()
            raise
        with self._lock:
            if len(self._idle) < _MOST:
                self._idle.append(call)
                return
        call.connection.close()

    def close(self) -> None:
        """Close all."""
        with self._lock:
            idle, self._idle = self._idle, []
        for call in idle:
            call.connection.close()

    def _take(self) -> Call | None:
        if self._pid != os.getpid():  # in a fork: connections are its parent's, and who has the lock is not there
            self._idle, self._lock, self._pid = [], threading.Lock(), os.getpid()
        while True:
            with self._lock:
                if not self._idle:
                    return None
                call = self._idle.pop()
            if call.connection.is_idle:
                return call
            call.connection.close()
