"""One connection between two ranks: frames of data and of short messages, without waiting."""

import math
import socket
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from gmi_drl.comm.links.send_buffer import ask_for_room
from gmi_drl.errors import GmiError

CALL, PING, PONG, FAILURE, DATA, KEEPALIVE = range(6)
"""Kinds of frames.

CALL: the code of a collective call. PING: do you wait? PONG: yes, for these ranks. FAILURE: an error that all ranks
raise. DATA: numbers. KEEPALIVE: this rank waits elsewhere. Users of a connection may have further kinds, from
`FIRST_OTHER_KIND` on.
"""

FIRST_OTHER_KIND = 16

Frame = tuple[int, bytes]  # a message: its kind, any but CALL and DATA, and its bytes

_HEADER = struct.Struct("<QQ")  # the kind; the code of the call, or the number of bytes that follow
_AT_ONCE = 256  # views that one system call takes
_AHEAD_BYTES = 4096  # that are read beyond the frame which is read: headers and short messages, to be copied


class FrameError(GmiError):
    """A peer has sent a frame that it may not send."""


@contextmanager
def naming(sender: str) -> Iterator[None]:
    """Raise what is wrong with a frame of a sender, or with the numbers and text in it, by the sender's name.

    Raises:
        FrameError: For every such error of the `with` block.
    """
    try:
        yield
    except (FrameError, struct.error, UnicodeDecodeError) as error:
        raise FrameError(f"{sender} sent a damaged frame: {error}") from error


class FramedConnection:
    """A non-blocking connection to one peer.

    It reads everything that arrives, even before anybody wants it, so that a message is never stuck behind data.

    Args:
        connection: A connected socket, which this object owns from now on.
        pid: The peer's process id on its host.
        message_bytes: The most bytes of a message, from a peer that is not trusted. It may send FAILURE and further
            kinds of messages only, and data only where `receive_data` expects it. None for a rank of a group.
        predecessors: How many processes were this peer before, and have ended.

    Attributes:
        calls: Codes of collective calls that the peer has made and this rank has not.
        sent: Bytes of data that the socket has taken.
        taken: All bytes that it has taken, headers and messages included.
        received: Bytes of data that have arrived.
        is_open: False as soon as the peer has ended or closed its side.
    """

    def __init__(
        self, connection: socket.socket, pid: int, message_bytes: int | None = None, predecessors: int = 0
    ) -> None:
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pid, self.predecessors, self._message_bytes = pid, predecessors, message_bytes
        self.calls: deque[int] = deque()
        self.sent = self.taken = self.received = 0
        self.is_open = True
        self._socket = connection
        self._header = bytearray(_HEADER.size)
        self._kind: int | None = None  # of the frame whose body is being read
        self._body = memoryview(self._header)
        self._filled = 0
        self._ahead = memoryview(bytearray(_AHEAD_BYTES))
        self._ahead_from = self._ahead_to = 0  # what of it has not been handled
        self._inbox: deque[memoryview] = deque()
        self._targets: deque[memoryview] = deque()
        self._unsent: deque[tuple[memoryview, bool]] = deque()  # with whether it is data

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    @property
    def is_receiving(self) -> bool:
        """Whether data that `receive_data` expects has not all arrived."""
        return bool(self._targets)

    @property
    def is_sending(self) -> bool:
        """Whether the socket has not taken everything yet."""
        return bool(self._unsent)

    def ask_for_room(self, nbytes: int) -> None:
        """Ask for a socket that takes so many bytes at once; see `send_buffer`."""
        ask_for_room(self._socket, nbytes)

    def send_call(self, call: int) -> None:
        """Send the code of this rank's collective call."""
        self._put(CALL, call)

    def send_frame(self, kind: int, text: bytes = b"") -> None:
        """Send a message of some kind."""
        self._put(kind, len(text), memoryview(text))

    def send_data(self, data: memoryview) -> None:
        """Send bytes. They must not change while `is_sending`."""
        self._put(DATA, len(data), data)

    def send_together(self, frames: Iterable[tuple[int, Sequence[memoryview | bytes]]]) -> None:
        """Send frames by as few system calls as possible: of each the kind and the bytes, in any number of pieces.

        Data must not change while `is_sending`.
        """
        views: list[tuple[memoryview | bytes, bool]] = []
        size = size_of_data = 0
        for kind, pieces in frames:
            count = sum([len(piece) for piece in pieces])
            views.append((_HEADER.pack(kind, count), False))
            views += [(piece, kind == DATA) for piece in pieces if len(piece)]
            size += _HEADER.size + count
            size_of_data += count * (kind == DATA)
        taken = 0 if self._unsent or len(views) > _AT_ONCE else self._send([view for view, _ in views])
        if taken == size:
            self.taken += size
            self.sent += size_of_data
        elif taken is not None:
            self._unsent.extend((memoryview(view), is_data) for view, is_data in views)
            self._took(taken)
            self.flush()

    def receive_data(self, *targets: memoryview) -> None:
        """Receive the next data frames into these bytes: all is there as soon as `is_receiving` is false."""
        self._targets.extend(targets)
        while self._inbox and self._targets:
            self._deliver(self._inbox.popleft())

    def flush(self) -> None:
        """Write to the socket as much as it takes."""
        while self._unsent:
            taken = self._send([view for view, _ in islice(self._unsent, _AT_ONCE)])
            if taken is None:
                self._unsent.clear()
            elif taken:
                self._took(taken)
            else:
                return

    def copy_unsent(self) -> None:
        """Copy what the socket has not taken: its memory may change from now on."""
        self._unsent = deque((memoryview(bytes(view)), is_data) for view, is_data in self._unsent)

    def read(self, most_bytes: float = math.inf, *, may_stop: bool = False) -> Iterator[Frame]:
        """Read what has arrived. Yields the messages in it.

        Bytes behind a message are handled when the next message is requested: a message may decide where data goes
        (`receive_data`).

        Args:
            most_bytes: Read at most this much and a piece; what is left keeps the connection readable.
            may_stop: Whether the caller may stop after any message. Then nothing is read ahead of a frame, which takes
                more system calls: what is left keeps the connection readable. Others take all messages.

        Raises:
            FrameError: If a peer that is not trusted sends what it may not send; close the connection.
        """
        is_empty = False
        while True:
            while self._ahead_from < self._ahead_to:
                yield from self._take_ahead()
            if is_empty or most_bytes <= 0 or not self.is_open:
                return
            views = self._views(may_stop)
            try:
                count = self._socket.recv_into(views[0]) if len(views) == 1 else self._socket.recvmsg_into(views)[0]
            except BlockingIOError:
                return
            except OSError:
                count = 0
            self.is_open = count > 0
            most_bytes -= count
            is_empty = count < sum(map(len, views))  # to be told so would take another call
            own = 0 if views[0] is self._ahead else min(count, len(views[0]))
            self._ahead_from, self._ahead_to = 0, count - own
            if own:
                yield from self._came(own)

    def close(self) -> None:
        """Close the socket."""
        self.is_open = False
        self._socket.close()

    def _put(self, kind: int, value: int, body: memoryview | None = None) -> None:
        self._unsent.append((memoryview(_HEADER.pack(kind, value)), False))
        if body:
            self._unsent.append((body, kind == DATA))
        self.flush()

    def _send(self, views: Sequence[memoryview | bytes]) -> int | None:
        """Bytes that the socket has taken; None if the peer has ended: `read` sees that, after its last bytes."""
        try:
            return self._socket.sendmsg(views)
        except BlockingIOError:
            return 0
        except OSError:
            return None

    def _took(self, taken: int) -> None:
        self.taken += taken
        while taken:
            view, is_data = self._unsent.popleft()
            count = min(taken, len(view))
            taken -= count
            self.sent += count * is_data
            if count < len(view):
                self._unsent.appendleft((view[count:], is_data))

    def _views(self, may_stop: bool) -> list[memoryview]:
        """Where the next bytes go: to the header or body that is read, and behind a body ahead."""
        if may_stop:
            return [self._body[self._filled :]]
        return [self._ahead] if self._kind is None else [self._body[self._filled :], self._ahead]

    def _take_ahead(self) -> Sequence[Frame]:
        """Copy what was read ahead to the header or body that it belongs to."""
        if self._kind is None and not self._filled and self._take_data():
            return ()
        count = min(len(self._body) - self._filled, self._ahead_to - self._ahead_from)
        start, self._ahead_from = self._ahead_from, self._ahead_from + count
        self._body[self._filled : self._filled + count] = self._ahead[start : start + count]
        return self._came(count)

    def _take_data(self) -> bool:
        """Copy a whole frame of data that was read ahead to where it is expected. Returns whether there was one.

        That is how most data of a few kB arrives: this takes fewer steps than first its header and then its body.
        """
        start = self._ahead_from + _HEADER.size
        if not self._targets or start > self._ahead_to:
            return False
        kind, size = _HEADER.unpack_from(self._ahead, self._ahead_from)
        if kind != DATA or size != len(self._targets[0]) or start + size > self._ahead_to:
            return False
        self._ahead_from = start + size
        self._targets.popleft()[:] = self._ahead[start : self._ahead_from]
        self.received += size
        return True

    def _came(self, count: int) -> list[Frame]:
        """Count bytes of a header or body. Returns the message that is complete with them."""
        self._filled += count
        self.received += count * (self._kind == DATA)
        return self._whole() if self._filled == len(self._body) else []

    def _whole(self) -> list[Frame]:
        """Handle a complete header or body of a frame."""
        kind, body = self._kind, self._body
        self._kind, self._body, self._filled = None, memoryview(self._header), 0
        if kind is None:
            kind, value = _HEADER.unpack(self._header)
            if self._message_bytes is not None:
                self._check(kind, value, self._message_bytes)
            if kind == CALL:
                self.calls.append(value)
                return []
            if value:
                self._kind, self._body = kind, self._room(kind, value)
                return []
            body = memoryview(b"")
        if kind != DATA:
            return [(kind, bytes(body))]
        if self._targets and body is self._targets[0]:
            self._targets.popleft()
        else:
            self._deliver(body)
        return []

    def _room(self, kind: int, size: int) -> memoryview:
        """The memory for a body: the target of `receive_data`, if it is known, which saves a copy."""
        if kind == DATA and self._targets and len(self._targets[0]) == size:
            return self._targets[0]
        return memoryview(bytearray(size))

    def _check(self, kind: int, size: int, most: int) -> None:
        """Raise unless a peer that is not trusted may send such a frame now."""
        if kind == DATA:
            expected = len(self._targets[0]) if self._targets else 0
            if not expected or size != expected:
                raise FrameError(f"{size} bytes of data came where {expected} were expected")
        elif kind < FIRST_OTHER_KIND and kind != FAILURE:
            raise FrameError(f"a frame of kind {kind} came, which only ranks of a group send")
        elif size > most:
            raise FrameError(f"a message of {size} bytes came, {most} are the most")

    def _deliver(self, data: memoryview) -> None:
        if not self._targets:
            self._inbox.append(data)
            return
        if len(data) != len(self._targets[0]):
            text = f"{len(data)} bytes have arrived where {len(self._targets[0])} were expected"
            raise GmiError(f"{text}, from process {self.pid}: do all ranks make the same calls?")
        self._targets.popleft()[:] = data
