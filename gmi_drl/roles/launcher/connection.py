"""The connection between a GMI and its launcher: JSON messages over an inherited socket pair. No pickle, no RPC."""

import json
import math
import os
import socket
import time
from select import POLLIN, poll
from typing import NoReturn

from gmi_drl.comm.memory.cuda_context import finish
from gmi_drl.errors import GmiError
from gmi_drl.roles.launcher.protocol import (
    MessageToGMI,
    MessageToLauncher,
    Proved,
    Waits,
    parse_message_to_gmi,
    to_json,
)

MAX_BYTES = 64 * 1024
"""Longest message; `SOCK_SEQPACKET` keeps each whole."""


RENEW_S = 10.0
"""Least time between two `Waits`."""

PROOF_S = 600.0
"""Deadline for `Proved`: the launcher checks one GMI of a device after the other."""


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """The sockets of the launcher and of the GMI, which inherits the second."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def encode(message: MessageToGMI | MessageToLauncher) -> bytes:
    """The bytes of a message.

    Raises:
        GmiError: if they are too many.
    """
    data = json.dumps(to_json(message)).encode()
    if len(data) > MAX_BYTES:
        raise GmiError(f"a message of {len(data)} bytes is longer than {MAX_BYTES}: write it to the run folder instead")
    return data


def decode(data: bytes) -> object:
    """The JSON value in bytes, for the parsers of `protocol`. Raises ValueError if they are no JSON."""
    try:
        value: object = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


class LauncherConnection:
    """A GMI's end of the connection. A GMI whose launcher has gone exits at its next call."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._unread: list[MessageToGMI] = []
        self._renewed_s = -math.inf

    def report(self, message: MessageToLauncher) -> None:
        """Send without ever waiting: a launcher that does not read misses the message."""
        try:
            self._socket.send(encode(message))
        except BlockingIOError:
            return
        except OSError:
            self._exit()

    def renew(self) -> None:
        """Report `Waits`, at most once in `RENEW_S`: this GMI waits for one that is slow, and does not hang."""
        if time.monotonic() - self._renewed_s > RENEW_S:
            self._renewed_s = time.monotonic()
            self.report(Waits())

    def deliver(self, message: MessageToLauncher) -> None:
        """Send a message that must arrive, such as a result or an error.

        This waits for a launcher that is stopped. If the launcher dies, the kernel ends this process.
        """
        self._socket.setblocking(True)
        try:
            self._socket.send(encode(message))
        except OSError:
            self._exit()
        finally:
            self._socket.setblocking(False)

    def messages(self) -> list[MessageToGMI]:
        """The messages that have arrived since the last call, e.g. `[Stop()]`. Does not wait."""
        messages, self._unread = self._unread, []
        while True:
            try:
                data = self._socket.recv(MAX_BYTES)
            except BlockingIOError:
                return messages
            except OSError:
                self._exit()
            if not data:
                self._exit()
            messages.append(parse_message_to_gmi(decode(data)))

    def fileno(self) -> int:
        """A descriptor that is readable when a message has arrived."""
        return self._socket.fileno()

    def await_messages(self, wait_s: float) -> list[MessageToGMI]:
        """As `messages`, after waiting at most `wait_s` for one."""
        waiting = poll()  # `select` takes no descriptor beyond 1023
        waiting.register(self._socket, POLLIN)
        waiting.poll(0 if self._unread else 1000 * wait_s)
        return self.messages()

    def await_proof(self) -> None:
        """Wait for `Proved`; see `await_message`."""
        late = f"the launcher has not proved within {PROOF_S:.0f} s where this GMI computes"
        self.await_message(Proved(), PROOF_S, late)

    def await_message(self, awaited: MessageToGMI, wait_s: float, late: str) -> None:
        """Wait for a message; the next call of `messages` returns others that arrive meanwhile.

        Raises:
            GmiError: with the text `late`, if it has not arrived after `wait_s`.
        """
        arrived, deadline = list[MessageToGMI](), time.monotonic() + wait_s
        while awaited not in arrived:
            if time.monotonic() > deadline:
                raise GmiError(late)
            arrived += self.await_messages(1.0)
        arrived.remove(awaited)
        self._unread = arrived

    def _exit(self) -> NoReturn:
        """Exit, once the GPU is idle (see `roles.main.drain`): without a launcher there is no run."""
        finish()
        os._exit(1)
