"""The shared memory of a host's mailboxes: one for each ordered pair of GMIs, and an eventfd for each GMI."""

import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from gmi_drl.comm.memory.fence import fence, order_loads
from gmi_drl.comm.memory.segment import LINE_BYTES, allocate, in_pages
from gmi_drl.errors import MachineError, UsageError

PIECE_BYTES = 256 * 1024  # what a mailbox grows by, and what is copied at a time; stays in the L2 cache; whole pages
MOST_MESSAGES = 64
MOST_BYTES = 64 * 2**20

_HEADER = struct.Struct(
    "8sqqqq"
)  # magic, GMIs, most_messages, most_bytes, whether a GMI has left; then for all GMIs: ids, process ids, activity
_MAGIC = b"gmi-msg4"
_WORD_BYTES = 8
_CONTROL_LINES = 2  # of a mailbox: one for each end, before the order of its pieces

ORDER = _CONTROL_LINES * LINE_BYTES // _WORD_BYTES
"""The index of the first word of a mailbox that holds the order of its pieces."""


@dataclass(frozen=True)
class Mailboxes:
    """What the GMIs of a host inherit: a descriptor of the shared memory, and one eventfd for each GMI, by its id.

    Neither has a name in the file system; both vanish with the last process that holds them. They serve one launch.
    """

    memory: int
    eventfds: Mapping[int, int]

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All of them."""
        return (self.memory, *self.eventfds.values())

    def close(self) -> None:
        """Close the descriptors; processes that have inherited them keep theirs."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def create_mailboxes(
    gmis: Sequence[int], most_messages: int = MOST_MESSAGES, most_bytes: int = MOST_BYTES
) -> Mailboxes:
    """Mailboxes for all ordered pairs of some GMIs of one host.

    A mailbox takes no memory until it is used. It then grows, piece by piece, to the most bytes that were ever sent and
    not yet received, at most `most_bytes` and one piece, and keeps them.

    Args:
        gmis: Their ids, one at least.
        most_messages: The most messages of a mailbox that may be sent and not received.
        most_bytes: The same in bytes, a multiple of `PIECE_BYTES`.

    Raises:
        UsageError: If a number is not positive, or `most_bytes` no multiple of `PIECE_BYTES`.
        MachineError: If there is not enough memory, or there are too many descriptors.
    """
    size = len(gmis)
    if min(size, most_messages, most_bytes) < 1 or most_bytes % PIECE_BYTES:
        numbers = f"not {size}, {most_messages} and {most_bytes}"
        raise UsageError(f"mailboxes need GMIs, most_messages and pieces of {PIECE_BYTES} bytes, each >= 1, {numbers}")
    remedy = "use fewer GMIs"
    with ExitStack() as undone:
        try:
            memory = os.memfd_create("gmi-drl-mailboxes", os.MFD_CLOEXEC)
            undone.callback(os.close, memory)
            allocate(memory, 0, _table_bytes(size), "mailboxes", remedy)
            os.ftruncate(memory, _table_bytes(size) + size**2 * _mailbox_bytes(most_bytes))
            os.pwrite(memory, _HEADER.pack(_MAGIC, size, most_messages, most_bytes, 0), 0)
            os.pwrite(memory, struct.pack(f"={size}q", *gmis), _HEADER.size)
            eventfds: dict[int, int] = {}
            for gmi in gmis:
                eventfds[gmi] = eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
                undone.callback(os.close, eventfd)
        except OSError as error:
            raise MachineError(f"no mailboxes for {size} GMIs: {error.strerror}: {remedy}") from error
        undone.pop_all()
    return Mailboxes(memory, eventfds)


class MailboxMemory:
    """The mailboxes' memory, mapped in this process: the GMIs, their process ids, the words and pieces of mailboxes.

    Args:
        descriptor: Of `create_mailboxes`; the caller closes it after this object's last use.

    Attributes:
        memory: The whole mapping, of which only a small part is backed by memory.
        most_messages: The most messages of a mailbox that may be sent and not received.
        most_bytes: The same in bytes.

    Raises:
        UsageError: If the descriptor is something else.
        MachineError: If this process has no room in its address space (`ulimit -v`).
    """

    def __init__(self, descriptor: int) -> None:
        try:
            header = os.pread(descriptor, _HEADER.size, 0)
        except OSError as error:
            text = f"descriptor {descriptor} is not the memory of mailboxes: {error.strerror} (see pass_fds)"
            raise UsageError(text) from error
        magic, size, self.most_messages, self.most_bytes, _ = _HEADER.unpack(header.ljust(_HEADER.size, b"\0"))
        if magic != _MAGIC:
            raise UsageError(f"descriptor {descriptor} is not the memory of mailboxes")
        self._descriptor, self._size = descriptor, int(size)
        try:
            self.memory = mmap.mmap(descriptor, 0)
        except OSError as error:
            text = f"mailboxes of {self._size} GMIs cannot be mapped: {error.strerror} (ulimit -v)"
            raise MachineError(f"{text}: use fewer GMIs") from error
        whole, first = memoryview(self.memory)[: _table_bytes(self._size)].cast("q"), _HEADER.size // _WORD_BYTES
        words, self._has_left = whole[first:], whole[first - 1 : first]
        self._gmis = tuple(words[: self._size])
        self._index = {gmi: index for index, gmi in enumerate(self._gmis)}
        self._pids, self._activity = (words[part * self._size : (part + 1) * self._size] for part in (1, 2))
        self._all_pids = np.frombuffer(self._pids, dtype=np.int64)  # negative: of a GMI that has left its process

    def pid(self, gmi: int) -> int:
        """The process id of a GMI; 0 before it has opened the mailboxes."""
        return abs(int(self._pids[self._index[gmi]]))

    def set_pid(self, gmi: int, pid: int) -> None:
        """Publish the process id of a GMI."""
        self._pids[self._index[gmi]] = pid

    def leave(self, gmi: int) -> None:
        """Publish that a GMI has ended, though its process goes on: a process of proxies carries several."""
        fence()  # what it did before counts
        self._pids[self._index[gmi]] = -self.pid(gmi)
        self._has_left[0] = 1

    @property
    def has_left(self) -> bool:
        """Whether any GMI has ever left. Most hosts have none that could: this is much quicker than `left`."""
        return bool(self._has_left[0])

    def left(self) -> list[int]:
        """The GMIs that have ended and whose process may go on."""
        if not (has_left := self._all_pids < 0).any():
            return []
        order_loads()
        return [self._gmis[index] for index in np.flatnonzero(has_left)]

    def activity_ns(self, gmi: int) -> int:
        """The time (`time.monotonic_ns`) of the last message that a GMI knows of; 0 before any."""
        return int(self._activity[self._index[gmi]])

    def set_activity_ns(self, gmi: int, at_ns: int) -> None:
        """Publish the time of the last message that a GMI knows of."""
        self._activity[self._index[gmi]] = at_ns

    def words(self, sender: int, receiver: int) -> memoryview:
        """The words of a mailbox: a line of the sender, a line of the receiver, and from `ORDER` the order of pieces.

        This allocates their memory: both ends call it before anything else.

        Raises:
            MachineError: If there is not enough memory.
        """
        start, count = self._mailbox(sender, receiver), _control_bytes(self.most_bytes)
        allocate(self._descriptor, start, count, "mailboxes", "use fewer GMIs")
        return memoryview(self.memory)[start : start + count].cast("q")

    def room(self, sender: int, receiver: int) -> tuple[int, int]:
        """Where the pieces of a mailbox lie: the first byte, and how many bytes."""
        return self._mailbox(sender, receiver) + _control_bytes(self.most_bytes), _room_bytes(self.most_bytes)

    def grow(self, sender: int, receiver: int, piece: int) -> None:
        """Allocate one piece of a mailbox, before anybody writes there.

        Raises:
            MachineError: If there is not enough memory; without this the kernel would end a process by SIGBUS.
        """
        start, _ = self.room(sender, receiver)
        remedy = "send less before it is read, or use fewer GMIs"
        allocate(self._descriptor, start + piece * PIECE_BYTES, PIECE_BYTES, "messages", remedy)

    def _mailbox(self, sender: int, receiver: int) -> int:
        index = self._index[sender] * self._size + self._index[receiver]
        return _table_bytes(self._size) + index * _mailbox_bytes(self.most_bytes)


def piece_count(most_bytes: int) -> int:
    """Pieces of a mailbox: its unread bytes may begin and end within a piece."""
    return most_bytes // PIECE_BYTES + 1


def _table_bytes(size: int) -> int:
    return in_pages(_HEADER.size + 3 * _WORD_BYTES * size)


def _mailbox_bytes(most_bytes: int) -> int:
    return _control_bytes(most_bytes) + _room_bytes(most_bytes)


def _control_bytes(most_bytes: int) -> int:
    return in_pages(_CONTROL_LINES * LINE_BYTES + _WORD_BYTES * piece_count(most_bytes))


def _room_bytes(most_bytes: int) -> int:
    return piece_count(most_bytes) * PIECE_BYTES
