"""A door: a listening socket at which only those come in who greet it with its token.

A greeting is the token, how many bytes follow, and these. It keeps out who happens to know the address, not who can
read along: nothing is encrypted. Who connects and says nothing, or too little, has `HELLO_S`, and costs one of `PLACES`
until then. When there are more such connections the oldest is closed. So silent strangers neither delay nor displace
who has the token: greetings are read from all connections at once, as they come.
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
"""For a greeting, from when its connection was accepted; only those seconds count in which this process looked."""

PLACES = 64
"""Connections that may be about to greet, beside those of the guests that are expected."""

_HEAD = struct.Struct(f"<{TOKEN_LETTERS}sI")  # the token, and how many bytes follow


def greeting(token: str, said: bytes) -> bytes:
    """What to send first to a door that has this token.

    Raises:
        UsageError: If the token has not `TOKEN_LETTERS` letters of ASCII.
    """
    return _HEAD.pack(_token_bytes(token), len(said)) + said


class Greeting:
    """One that is read from a connection, without waiting.

    Args:
        connection: It does not block from now on. Nothing behind the greeting is read.
        token: That it must begin with.
        most_bytes: That may follow the token.
    """

    def __init__(self, connection: socket.socket, token: str, most_bytes: int) -> None:
        connection.setblocking(False)
        self.connection = connection
        self._token, self._most_bytes = _token_bytes(token), most_bytes
        self._heard, self._size = bytearray(), _HEAD.size

    def read(self) -> bytes | None:
        """Read what has come. Returns what follows the token, once all of it is there, else None.

        Raises:
            OSError: If the connection has ended, or this is no greeting with the token.
        """
        while len(self._heard) < self._size:
            try:
                part = self.connection.recv(self._size - len(self._heard))
            except BlockingIOError:
                return None
            if not part:
                raise ConnectionResetError("it closed the connection")
            self._heard += part
            if len(self._heard) == _HEAD.size:
                token, count = _HEAD.unpack(self._heard)
                if not hmac.compare_digest(token, self._token) or count > self._most_bytes:
                    raise ConnectionRefusedError("it does not have the token")
                self._size += count
        return bytes(self._heard[_HEAD.size :])


@dataclass(frozen=True)
class Client:
    """Who has greeted with the token: its connection, which blocks, and what it said behind the token."""

    connection: socket.socket
    said: bytes


class TokenListener:
    """Accepts connections and hands out those that greet with the token; to be closed when all guests have come.

    Args:
        listener: Of a socket that listens; it stays the caller's to close.
        token: That guests have.
        most_bytes: That a greeting may have behind it.
        guests: As many may come at once.
    """

    def __init__(self, listener: socket.socket, token: str, most_bytes: int, guests: int) -> None:
        self._listener, self._token, self._most_bytes = listener, token, most_bytes
        self._places = PLACES + guests
        self._greetings: dict[int, tuple[Greeting, float]] = {}  # by descriptor, and when each came: the oldest first
        self._clock = WaitClock()
        listener.setblocking(False)
        self._looking = epoll()
        self._looking.register(listener, EPOLLIN)

    def fileno(self) -> int:
        """Of a descriptor that can be read whenever `look` has something to do; not for the deadlines of guests."""
        return self._looking.fileno()

    def look(self, wait_s: float = 0.0) -> list[Client]:
        """Wait at most so long for anybody to connect or say something. Returns those whose greeting is whole now.

        Raises:
            MachineError: If there is no descriptor for who comes.
        """
        guests: list[Client] = []
        for descriptor, _ in self._looking.poll(wait_s):
            if descriptor == self._listener.fileno():
                self._accept(guests)
            else:
                self._hear(descriptor, guests)
        now_s = self._clock.look()
        for descriptor in [one for one, (_, came_s) in self._greetings.items() if now_s - came_s > HELLO_S]:
            self._close(descriptor)
        return guests

    def close(self) -> None:
        """Let nobody in any more: whoever connects is refused, also where other processes have the listener, too."""
        for descriptor in list(self._greetings):
            self._close(descriptor)
        self._looking.close()
        with suppress(OSError):  # it was closed before
            self._listener.shutdown(socket.SHUT_RDWR)

    def _accept(self, guests: list[Client]) -> None:
        for _ in range(self._places):
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise MachineError(f"nobody can connect: {error.strerror} (ulimit -n)") from error
                return  # there is no more, or it has gone again
            if len(self._greetings) == self._places:
                oldest = next(iter(self._greetings))
                self._hear(oldest, guests)
                self._close(oldest)
            self._greetings[connection.fileno()] = (
                Greeting(connection, self._token, self._most_bytes),
                self._clock.seconds,
            )
            self._looking.register(connection, EPOLLIN)
            self._hear(connection.fileno(), guests)

    def _hear(self, descriptor: int, guests: list[Client]) -> None:
        if descriptor not in self._greetings:
            return  # it was closed since it said something
        greeting, _ = self._greetings[descriptor]
        try:
            said = greeting.read()
        except OSError:
            self._close(descriptor)
            return
        if said is not None:
            del self._greetings[descriptor]
            self._looking.unregister(descriptor)
            greeting.connection.setblocking(True)
            guests.append(Client(greeting.connection, said))

    def _close(self, descriptor: int) -> None:
        if descriptor in self._greetings:
            greeting, _ = self._greetings.pop(descriptor)
            greeting.connection.close()  # and nobody looks at it any more


def _token_bytes(token: str) -> bytes:
    if len(token) != TOKEN_LETTERS or not token.isascii():
        raise UsageError(f"a token has {TOKEN_LETTERS} letters of ASCII")
    return token.encode()
