"""One connection between two ranks: frames of numbers, and words beside them, without waiting."""

import socket
import struct
from collections import deque
from collections.abc import Iterator
from itertools import islice

from gmi_drl.errors import GmiError

CALL, ASK, HERE, LOST, DATA, RENEW = range(6)
"""Kinds of frames: what a rank has come for; are you there; I am, and wait for these; a rank is lost; numbers; I am
elsewhere, and not silent.

Whoever uses a wire may have words of other kinds, from `FIRST_OTHER_KIND` on.
"""

FIRST_OTHER_KIND = 16

Word = tuple[int, bytes]  # of any kind but CALL and DATA, and what it says

_HEADER = struct.Struct("<QQ")  # the kind; the call, or how many bytes follow
_AT_ONCE = 8  # views that one system call takes


class FramedConnection:
    """The connection to one peer, which neither call waits for.

    All that arrives is read, also what nobody has asked for yet, so that a word is never stuck behind numbers.

    Args:
        connection: A connected socket; from now on this object's.
        pid: The peer's process on its host.

    Attributes:
        calls: What the peer has come for and this rank has not met it in.
        sent: Bytes of numbers that the socket has taken.
        received: Bytes of numbers that have come.
        is_open: False as soon as the peer has ended or closed its side.
    """

    def __init__(self, connection: socket.socket, pid: int) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pid = pid
        self.calls: deque[int] = deque()
        self.sent = self.received = 0
        self.is_open = True
        self._socket = connection
        self._header = bytearray(_HEADER.size)
        self._kind: int | None = None  # of the frame whose body is being read
        self._body = memoryview(self._header)
        self._filled = 0
        self._inbox: deque[memoryview] = deque()
        self._target: memoryview | None = None
        self._unsent: deque[tuple[memoryview, bool]] = deque()  # with whether these are numbers

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    @property
    def is_receiving(self) -> bool:
        """Whether numbers that `receive` asked for have not all come."""
        return self._target is not None

    @property
    def is_sending(self) -> bool:
        """Whether the socket has not taken everything yet."""
        return bool(self._unsent)

    def call(self, call: int) -> None:
        """Tell what this rank has come for."""
        self._put(CALL, call)

    def tell(self, kind: int, text: bytes = b"") -> None:
        """Send a word."""
        self._put(kind, len(text), memoryview(text))

    def send(self, numbers: memoryview) -> None:
        """Send bytes, which stay as they are until `is_sending` is over."""
        self._put(DATA, len(numbers), numbers)

    def receive(self, target: memoryview) -> None:
        """Let the next numbers come into these bytes: as soon as `is_receiving` is over, they are there."""
        self._target = target
        if self._inbox:
            self._deliver(self._inbox.popleft())

    def flush(self) -> None:
        """Give the socket what it takes."""
        while self._unsent:
            try:
                taken = self._socket.sendmsg([view for view, _ in islice(self._unsent, _AT_ONCE)])
            except BlockingIOError:
                return
            except OSError:
                self._unsent.clear()  # the peer has ended: reading says so, after what it said last
                return
            self._took(taken)

    def read(self) -> Iterator[Word]:
        """Read what has come; the words in it.

        What comes behind a word is read when the next one is asked for: a word may say where numbers go (`receive`).
        """
        while self.is_open:
            try:
                count = self._socket.recv_into(self._body[self._filled :])
            except BlockingIOError:
                break
            except OSError:
                count = 0
            self.is_open = count > 0
            self._filled += count
            self.received += count * (self._kind == DATA)
            if self._filled == len(self._body):
                yield from self._whole()

    def close(self) -> None:
        """Close the socket."""
        self.is_open = False
        self._socket.close()

    def _put(self, kind: int, value: int, body: memoryview | None = None) -> None:
        self._unsent.append((memoryview(_HEADER.pack(kind, value)), False))
        if body:
            self._unsent.append((body, kind == DATA))
        self.flush()

    def _took(self, taken: int) -> None:
        while taken:
            view, is_data = self._unsent.popleft()
            count = min(taken, len(view))
            taken -= count
            self.sent += count * is_data
            if count < len(view):
                self._unsent.appendleft((view[count:], is_data))

    def _whole(self) -> list[Word]:
        """A header or the body of a frame is there."""
        kind, body = self._kind, self._body
        self._kind, self._body, self._filled = None, memoryview(self._header), 0
        if kind is None:
            kind, value = _HEADER.unpack(self._header)
            if kind == CALL:
                self.calls.append(value)
                return []
            if value:
                self._kind, self._body = kind, self._room(kind, value)
                return []
            body = memoryview(b"")
        if kind != DATA:
            return [(kind, bytes(body))]
        if body is self._target:
            self._target = None
        else:
            self._deliver(body)
        return []

    def _room(self, kind: int, size: int) -> memoryview:
        """Where a body goes: if that is known already, without a copy."""
        if kind == DATA and self._target is not None and len(self._target) == size:
            return self._target
        return memoryview(bytearray(size))

    def _deliver(self, numbers: memoryview) -> None:
        if self._target is None:
            self._inbox.append(numbers)
            return
        if len(numbers) != len(self._target):
            text = f"{len(numbers)} bytes have come where {len(self._target)} were to come"
            raise GmiError(f"{text}, from process {self.pid}: do all ranks reduce alike?")
        self._target[:] = numbers
        self._target = None
