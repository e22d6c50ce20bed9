"""Where the GMIs of a host leave each other messages: a mailbox for each ordered pair of them, a bell for each."""

import mmap
import os
import struct
from contextlib import ExitStack
from dataclasses import dataclass

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.memory.segment import LINE_BYTES, allocate

PIECE_BYTES = 256 * 1024  # what a mailbox grows by, and what is copied at a time; stays in the L2 cache; whole pages
MOST_MESSAGES = 64
MOST_BYTES = 64 * 2**20

_HEADER = struct.Struct("8sqqq")  # magic, size, most_messages, most_bytes
_MAGIC = b"gmi-msg1"
_WORD_BYTES = 8
_CONTROL_LINES = 2  # of a mailbox, one for each end; the order of its pieces comes after them

ORDER = _CONTROL_LINES * LINE_BYTES // _WORD_BYTES
"""Its place among the words of a mailbox."""


@dataclass(frozen=True)
class Post:
    """What the GMIs inherit: descriptors of the memory, and of a bell (an eventfd) for each GMI, by its id.

    Nothing of it has a name, and all of it ends with its last holder. A post serves one launch once.
    """

    memory: int
    bells: tuple[int, ...]

    def close(self) -> None:
        """Close the descriptors; who has inherited them keeps theirs."""
        for descriptor in (self.memory, *self.bells):
            os.close(descriptor)


def create_post(size: int, most_messages: int = MOST_MESSAGES, most_bytes: int = MOST_BYTES) -> Post:
    """Mailboxes for the ordered pairs of `size` GMIs.

    A page for each pair is taken at once. The rest is only promised: a mailbox grows by pieces up to what was ever
    under way in it, `most_bytes` and a piece at most, and keeps that.

    Args:
        size: GMIs.
        most_messages: That may be under way in a mailbox.
        most_bytes: The same of bytes, in whole pieces of `PIECE_BYTES`.

    Raises:
        UsageError: If a number is not positive, or `most_bytes` no multiple of `PIECE_BYTES`.
        MachineError: If there is not enough memory, or there are too many descriptors.
    """
    if min(size, most_messages, most_bytes) < 1 or most_bytes % PIECE_BYTES:
        numbers = f"not {size}, {most_messages} and {most_bytes}"
        raise UsageError(f"a post needs size, most_messages and pieces of {PIECE_BYTES} bytes, each >= 1, {numbers}")
    table = _table_bytes(size, most_bytes)
    with ExitStack() as undone:
        try:
            memory = os.memfd_create("gmi-drl-post", os.MFD_CLOEXEC)
            undone.callback(os.close, memory)
            os.ftruncate(memory, table + size**2 * _room_bytes(most_bytes))
            allocate(memory, 0, table, "mailboxes", "use fewer GMIs")
            os.pwrite(memory, _HEADER.pack(_MAGIC, size, most_messages, most_bytes), 0)
            bells: list[int] = []
            for _ in range(size):
                bells.append(bell := os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
                undone.callback(os.close, bell)
        except OSError as error:
            raise MachineError(f"no mailboxes for {size} GMIs: {error.strerror}: use fewer GMIs") from error
        undone.pop_all()
    return Post(memory, tuple(bells))


class PostMemory:
    """The memory of a post in this process: ids of processes, words and pieces of mailboxes.

    Args:
        descriptor: Of `create_post`; it stays the caller's to close, when this is of no more use.
        size: GMIs that it was made for.

    Raises:
        UsageError: If the descriptor is something else, or made for another number of GMIs.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        try:
            header = os.pread(descriptor, _HEADER.size, 0)
        except OSError as error:
            text = f"descriptor {descriptor} is not the memory of a post: {error.strerror} (see pass_fds)"
            raise UsageError(text) from error
        magic, made_for, self.most_messages, self.most_bytes = _HEADER.unpack(header.ljust(_HEADER.size, b"\0"))
        if magic != _MAGIC:
            raise UsageError(f"descriptor {descriptor} is not the memory of a post")
        if made_for != size:
            raise UsageError(f"the post was made for {made_for} GMIs, not {size}")
        self._descriptor, self._size = descriptor, size
        self.memory = mmap.mmap(descriptor, 0)
        self.pids = memoryview(self.memory)[LINE_BYTES : LINE_BYTES + _WORD_BYTES * size].cast("q")

    def words(self, sender: int, receiver: int) -> memoryview:
        """The words of a mailbox: a line of its sender, one of its receiver, and from `ORDER` the order of pieces."""
        bytes_of_one = _control_bytes(self.most_bytes)
        start = _pid_bytes(self._size) + self._index(sender, receiver) * bytes_of_one
        return memoryview(self.memory)[start : start + bytes_of_one].cast("q")

    def room(self, sender: int, receiver: int) -> tuple[int, int]:
        """Where the pieces of a mailbox lie: the first byte, and how many bytes."""
        size = _room_bytes(self.most_bytes)
        return _table_bytes(self._size, self.most_bytes) + self._index(sender, receiver) * size, size

    def grow(self, sender: int, receiver: int, piece: int) -> None:
        """Make the memory of one piece of a mailbox real, before anybody writes there.

        Raises:
            MachineError: If there is not enough; without this the kernel would end a process by SIGBUS.
        """
        start, _ = self.room(sender, receiver)
        remedy = "send less before it is taken, or use fewer GMIs"
        allocate(self._descriptor, start + piece * PIECE_BYTES, PIECE_BYTES, "messages", remedy)

    def _index(self, sender: int, receiver: int) -> int:
        return sender * self._size + receiver


def piece_count(most_bytes: int) -> int:
    """Pieces of a mailbox: what is under way may begin and end within one."""
    return most_bytes // PIECE_BYTES + 1


def _room_bytes(most_bytes: int) -> int:
    return piece_count(most_bytes) * PIECE_BYTES


def _control_bytes(most_bytes: int) -> int:
    return _in_pages(_CONTROL_LINES * LINE_BYTES + _WORD_BYTES * piece_count(most_bytes))


def _pid_bytes(size: int) -> int:
    return _in_pages(LINE_BYTES + _WORD_BYTES * size)


def _table_bytes(size: int, most_bytes: int) -> int:
    return _pid_bytes(size) + size**2 * _control_bytes(most_bytes)


def _in_pages(count: int) -> int:
    return -(-count // mmap.PAGESIZE) * mmap.PAGESIZE
