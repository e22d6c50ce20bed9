"""A listening socket that hands out only those connections that greet it with its token.

A greeting is the token, the number of bytes that follow, and these bytes. The token keeps out processes that happen to
know the address, not those that can read the traffic: nothing is encrypted. A connection that sends too little is
closed after `HELLO_S`, and occupies one of `PLACES` until then; if all are occupied, the oldest is closed. Greetings
are read from all connections as they come, so silent strangers neither delay nor displace clients with the token.
"""

import errno
import hmac
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from select import EPOLLIN, epoll

from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import MachineError, UsageError

TOKEN_LETTERS = 32
HELLO_S = 10.0
"""Seconds for a greeting, from its connection's arrival. Only seconds in which this process ran count."""

PLACES = 64
"""Connections that may wait for their greeting, beside those of the expected clients."""

_HEAD = struct.Struct(f"<{TOKEN_LETTERS}sI")  # the token, and the number of bytes that follow


def greeting(token: str, payload: bytes) -> bytes:
    """The bytes that a client sends first.

    Raises:
        UsageError: If the token has not `TOKEN_LETTERS` letters of ASCII.
    """
    return _HEAD.pack(_token_bytes(token), len(payload)) + payload


class Greeting:
    """Reads a greeting from a connection, without waiting.

    Args:
        connection: It is non-blocking from now on. Nothing behind the greeting is read.
        token: The token with which it must begin.
        most_bytes: The most bytes that may follow the token.
    """

    def __init__(self, connection: socket.socket, token: str, most_bytes: int) -> None:
        connection.setblocking(False)
        self.connection = connection
        self._token, self._most_bytes = _token_bytes(token), most_bytes
        self._received, self._size = bytearray(), _HEAD.size

    def read(self) -> bytes | None:
        """Read the bytes that have come. Returns those behind the token once all are there, else None.

        Raises:
            OSError: If the connection has ended, or its bytes are no greeting with the token.
        """
        while len(self._received) < self._size:
            try:
                part = self.connection.recv(self._size - len(self._received))
            except BlockingIOError:
                return None
            if not part:
                raise ConnectionResetError("it closed the connection")
            self._received += part
            if len(self._received) == _HEAD.size:
                token, count = _HEAD.unpack(self._received)
                if not hmac.compare_digest(token, self._token) or count > self._most_bytes:
                    raise ConnectionRefusedError("it does not have the token")
                self._size += count
        return bytes(self._received[_HEAD.size :])


@dataclass(frozen=True)
class Client:
    """A client that has greeted with the token: its connection, which blocks, and its bytes behind the token."""

    connection: socket.socket
    payload: bytes


class TokenListener:
    """Accepts connections and hands out those that greet with the token. Close it when all clients have come.

    Args:
        listener: A listening socket; the caller closes it.
        token: The token that clients have.
        most_bytes: The most bytes behind the token.
        expected: How many clients may come at once.
    """

    def __init__(self, listener: socket.socket, token: str, most_bytes: int, expected: int) -> None:
        self._listener, self._token, self._most_bytes = listener, token, most_bytes
        self._places = PLACES + expected
        self._greetings: dict[
            int, tuple[Greeting, float]
        ] = {}  # by descriptor, with its time of arrival; the oldest first
        self._clock = WaitClock()
        listener.setblocking(False)
        self._poll = epoll()
        self._poll.register(listener, EPOLLIN)

    def fileno(self) -> int:
        """A descriptor that is readable when `poll` has something to do, except for deadlines of greetings."""
        return self._poll.fileno()

    def poll(self, wait_s: float = 0.0) -> list[Client]:
        """Wait at most `wait_s` seconds for a connection or bytes. Returns the clients whose greeting is complete now.

        Raises:
            MachineError: If this process has no descriptor left for a new connection.
        """
        clients: list[Client] = []
        for descriptor, _ in self._poll.poll(wait_s):
            if descriptor == self._listener.fileno():
                self._accept(clients)
            else:
                self._read(descriptor, clients)
        now_s = self._clock.look()
        for descriptor in [one for one, (_, came_s) in self._greetings.items() if now_s - came_s > HELLO_S]:
            self._close(descriptor)
        return clients

    def close(self) -> None:
        """Accept nobody any more. New connections are refused, even if other processes hold the listener, too."""
        for descriptor in list(self._greetings):
            self._close(descriptor)
        self._poll.close()
        with suppress(OSError):  # it was closed before
            self._listener.shutdown(socket.SHUT_RDWR)

    def _accept(self, clients: list[Client]) -> None:
        for _ in range(self._places):
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise MachineError(f"no connection can be accepted: {error.strerror} (ulimit -n)") from error
                return  # there is none left, or the client has gone again
            if len(self._greetings) == self._places:
                oldest = next(iter(self._greetings))
                self._read(oldest, clients)
                self._close(oldest)
            self._greetings[connection.fileno()] = (
                Greeting(connection, self._token, self._most_bytes),
                self._clock.seconds,
            )
            self._poll.register(connection, EPOLLIN)
            self._read(connection.fileno(), clients)

    def _read(self, descriptor: int, clients: list[Client]) -> None:
        if descriptor not in self._greetings:
            return  # it was closed since it sent something
        greeting, _ = self._greetings[descriptor]
        try:
            payload = greeting.read()
        except OSError:
            self._close(descriptor)
            return
        if payload is not None:
            del self._greetings[descriptor]
            self._poll.unregister(descriptor)
            greeting.connection.setblocking(True)
            clients.append(Client(greeting.connection, payload))

    def _close(self, descriptor: int) -> None:
        if descriptor in self._greetings:
            greeting, _ = self._greetings.pop(descriptor)
            greeting.connection.close()  # epoll forgets it, too


def _token_bytes(token: str) -> bytes:
    if len(token) != TOKEN_LETTERS or not token.isascii():
        raise UsageError(f"a token has {TOKEN_LETTERS} letters of ASCII")
    return token.encode()
