"""The connection between a launcher and an agent: JSON words with raw bytes behind them, over TCP.

Both ends say something every second, from a thread of their own, so that silence means something: a link that is down,
a host that is gone. The first thing that an agent says is a token; nothing is encrypted.
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

BEAT_S = 1.0
SUSPECT_S = 3.0
"""Of silence, after which a node is suspected."""

LOST_S = 8.0
"""Of silence, after which it is given up: a link that is down for five seconds is survived."""

MOST_BYTES = 64 * 2**20
"""Of a message: more is no message of ours."""

_HEAD = struct.Struct("<II")  # bytes of JSON, bytes behind it
_LOOK_S = 0.25

Message = dict[str, Any]


class ControlConnection:
    """One end. Threads of its own read, beat and watch until it is closed.

    Args:
        connection: To the other end.
        hear: Called with each message and its bytes, in the thread that reads, in order. It must not wait long.
        lost: Called once, when the other end is gone or silent, or `hear` or `suspect` has raised, with why; not after
            `close`.
        suspect: Called with the seconds of each silence that is longer than `SUSPECT_S`, once.
        patience_s: Of silence, until the other end is given up.
    """

    def __init__(
        self,
        connection: socket.socket,
        hear: Callable[[Message, bytes], None],
        lost: Callable[[str], None],
        suspect: Callable[[float], None] = lambda silent_s: None,
        patience_s: float = LOST_S,
    ) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection, self._hear, self._lost, self._suspect = connection, hear, lost, suspect
        self._patience_s = patience_s
        self._is_listening = True
        self._sending, self._over = threading.Lock(), threading.Event()
        self._told_lost = threading.Lock()
        self._heard = WaitClock()
        works = [partial(self._work, work) for work in (self._read, self._beat, self._watch)]
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]

    def begin(self) -> None:
        """Read, beat and watch from now on."""
        for thread in self._threads:
            thread.start()

    def say(self, message: Message, data: bytes = b"") -> None:
        """Send a message; one that cannot be sent is as lost as the other end, which is told by `lost`."""
        text = json.dumps(message).encode()
        with self._sending, suppress(OSError):
            self._connection.sendall(_HEAD.pack(len(text), len(data)) + text + data)

    def close(self) -> None:
        """End the connection; the other end sees it."""
        self._over.set()
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(2 * BEAT_S)
        self._connection.close()

    def _give_up(self, why: str) -> None:
        if self._over.is_set() or not self._told_lost.acquire(blocking=False):
            return
        self._over.set()
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._lost(why)

    def _work(self, work: Callable[[], None]) -> None:
        """Run one of the threads. If it fails the other end is given up: nobody else would notice."""
        try:
            work()
        except Exception as error:
            self._give_up(f"its connection failed at this end: {type(error).__name__}: {error}")

    def _read(self) -> None:
        while (came := self._next()) is not None:
            message, data = came
            if message:  # else a beat
                self._listen_to(message, data)

    def _next(self) -> tuple[Message, bytes] | None:
        """The next message and its bytes; None, and the other end is given up, if none will come."""
        try:
            text_bytes, data_bytes = _HEAD.unpack(self._exactly(_HEAD.size))
            if text_bytes + data_bytes > MOST_BYTES:
                raise ValueError(f"a message of {text_bytes + data_bytes} bytes is none of ours")
            return json.loads(self._exactly(text_bytes)), self._exactly(data_bytes)
        except EOFError:
            self._give_up("it has closed the connection")
        except (OSError, ValueError, RecursionError) as error:
            self._give_up(f"the connection broke: {error}")
        return None

    def _listen_to(self, message: Message, data: bytes) -> None:
        """What is done about a message, on a disk perhaps, is no silence of the other end."""
        self._is_listening = False
        self._hear(message, data)
        self._heard = WaitClock()
        self._is_listening = True

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._connection.recv(min(count - len(parts), 2**20))
            if not part:
                raise EOFError
            parts += part
            self._heard = WaitClock()
        return bytes(parts)

    def _beat(self) -> None:
        while not self._over.wait(BEAT_S):
            if self._sending.acquire(blocking=False):  # who is sending needs no beat
                self._sending.release()
                self.say({})

    def _watch(self) -> None:
        suspected: WaitClock | None = None
        while not self._over.wait(_LOOK_S):
            if not self._is_listening:
                continue
            heard = self._heard
            silent_s = heard.look()
            if silent_s > self._patience_s:
                self._give_up(f"nothing has been heard of it for {silent_s:.0f} s")
            elif silent_s > SUSPECT_S and suspected is not heard:
                suspected = heard
                self._suspect(silent_s)
