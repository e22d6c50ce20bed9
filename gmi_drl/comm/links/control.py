"""The connection between a launcher and the supervisor of a host: JSON messages with raw bytes behind them, over TCP.

Both ends send a heartbeat every second, from a thread of their own, so silence means a lost link or host. A supervisor
first greets with a token (`token_listener.py`); nothing is encrypted.
"""

import json
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from gmi_drl.comm.memory.wait_clock import WaitClock

HEARTBEAT_S = 1.0
SUSPECT_S = 3.0
"""Seconds of silence after which a host is suspected."""

LOST_S = 8.0
"""Seconds of silence after which a host is given up: a link that is down for five seconds is survived."""

MOST_BYTES = 64 * 2**20
"""The most bytes of a message; a longer one is refused."""

_HEAD = struct.Struct("<II")  # the lengths in bytes of the JSON and of the data behind it
_LOOK_S = 0.25

Message = dict[str, Any]


class ControlConnection:
    """One end. Threads of its own read, send heartbeats, and watch for silence, until it is closed.

    Args:
        connection: To the other end.
        on_message: Called with each message and its bytes, in the reading thread, in order. It must not block for long.
        on_lost: Called once, with the reason, when the other end is gone or silent, or when `on_message` or
            `on_silence` has raised. Not called after `close`.
        on_silence: Called once in each silence longer than `SUSPECT_S`, with its seconds.
        patience_s: Seconds of silence after which the other end is given up.
    """

    def __init__(
        self,
        connection: socket.socket,
        on_message: Callable[[Message, bytes], None],
        on_lost: Callable[[str], None],
        on_silence: Callable[[float], None] = lambda silent_s: None,
        patience_s: float = LOST_S,
    ) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._on_message, self._on_lost, self._on_silence = on_message, on_lost, on_silence
        self._patience_s = patience_s
        self._is_reading = True
        self._sending, self._is_closed = threading.Lock(), threading.Event()
        self._reporting_lost = threading.Lock()
        self._silence = WaitClock()
        works = [partial(self._work, work) for work in (self._read, self._send_heartbeats, self._watch)]
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def send(self, message: Message, data: bytes = b"") -> None:
        """Send a message. One that cannot be sent is dropped: the other end is then lost, which `on_lost` reports."""
        text = json.dumps(message).encode()
        with self._sending, suppress(OSError):
            self._connection.sendall(_HEAD.pack(len(text), len(data)) + text + data)

    def close(self) -> None:
        """Close the connection; the other end sees it."""
        self._is_closed.set()
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(2 * HEARTBEAT_S)
        self._connection.close()

    def _give_up(self, why: str) -> None:
        if self._is_closed.is_set() or not self._reporting_lost.acquire(blocking=False):
            return
        self._is_closed.set()
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._on_lost(why)

    def _work(self, work: Callable[[], None]) -> None:
        """Run one of the threads. If it fails, give up the other end: nothing else would notice."""
        try:
            work()
        except Exception as error:
            self._give_up(f"its connection failed at this end: {type(error).__name__}: {error}")

    def _read(self) -> None:
        while (came := self._next()) is not None:
            message, data = came
            if message:  # an empty one is a heartbeat
                self._deliver(message, data)

    def _next(self) -> tuple[Message, bytes] | None:
        """The next message and its bytes. If none will come, this gives up the other end and returns None."""
        try:
            text_bytes, data_bytes = _HEAD.unpack(self._read_exactly(_HEAD.size))
            if text_bytes + data_bytes > MOST_BYTES:
                raise ValueError(f"a message of {text_bytes + data_bytes} bytes is too long")
            return json.loads(self._read_exactly(text_bytes)), self._read_exactly(data_bytes)
        except EOFError:
            self._give_up("it has closed the connection")
        except (OSError, ValueError, RecursionError) as error:
            self._give_up(f"the connection broke: {error}")
        return None

    def _deliver(self, message: Message, data: bytes) -> None:
        """Handle a message. Time spent here, on a disk perhaps, does not count as silence of the other end."""
        self._is_reading = False
        self._on_message(message, data)
        self._silence = WaitClock()
        self._is_reading = True

    def _read_exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._connection.recv(min(count - len(parts), 2**20))
            if not part:
                raise EOFError
            parts += part
            self._silence = WaitClock()
        return bytes(parts)

    def _send_heartbeats(self) -> None:
        while not self._is_closed.wait(HEARTBEAT_S):
            if self._sending.acquire(blocking=False):  # a send in progress shows that this end is alive
                self._sending.release()
                self.send({})

    def _watch(self) -> None:
        suspected: WaitClock | None = None
        while not self._is_closed.wait(_LOOK_S):
            if not self._is_reading:
                continue
            silence = self._silence
            silent_s = silence.look()
            if silent_s > self._patience_s:
                self._give_up(f"it has been silent for {silent_s:.0f} s")
            elif silent_s > SUSPECT_S and suspected is not silence:
                suspected = silence
                self._on_silence(silent_s)
