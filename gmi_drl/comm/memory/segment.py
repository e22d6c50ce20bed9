"""Shared memory of the ranks of a group. The launcher makes it, ranks inherit it, and its last holder frees it."""

import mmap
import os
import struct

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.hardware.host_memory import check_available
from gmi_drl.units import human_bytes

LINE_BYTES = 128  # two cache lines: the processor fetches neighbours in pairs
STAGING_BYTES = 512 * 1024  # per rank, for vectors that do not live in the segment; stays in the L2 cache; whole pages

_HEADER = struct.Struct("8sqq")  # magic, size, slot_bytes
_MAGIC = b"gmi-red1"


def create_segment(size: int, slot_bytes: int) -> int:
    """Shared memory for one `SharedMemoryGroup` of `size` ranks, each with a slot of `slot_bytes`.

    Slots are whole pages because CUDA registers pages: two slots share none. A segment serves one group once.

    Returns:
        A file descriptor for `subprocess`'s `pass_fds`. The memory has no name and vanishes with its last holder.

    Raises:
        UsageError: If a number is not positive.
        MachineError: If there is not enough memory.
    """
    if size < 1 or slot_bytes < 1:
        raise UsageError(f"a segment needs 1 rank and 1 byte per slot at least, not {size} and {slot_bytes}")
    return _created(size, in_pages(slot_bytes), segment_bytes(size, slot_bytes))


def segment_bytes(size: int, slot_bytes: int) -> int:
    """Bytes that `create_segment` takes."""
    return first_slot(size) + size * (in_pages(slot_bytes) + STAGING_BYTES)


def create_table(size: int) -> int:
    """A segment without slots, for ranks that move their data in another way: one line for each rank (see `RankTable`).

    Returns a descriptor as `create_segment` does.

    Raises:
        MachineError: If there is not enough memory.
    """
    return _created(size, 0, first_slot(size))


def _created(size: int, slot_bytes: int, wanted: int) -> int:
    fd = os.memfd_create("gmi-drl-group", os.MFD_CLOEXEC)
    try:
        allocate(fd, 0, wanted, f"{size} ranks x {human_bytes(wanted / size)} of shared memory", "use fewer GMIs")
    except MachineError:
        os.close(fd)
        raise
    os.pwrite(fd, _HEADER.pack(_MAGIC, size, slot_bytes), 0)
    return fd


def allocate(fd: int, start: int, count: int, what: str, remedy: str) -> None:
    """Reserve the memory of a part of a memfd. Without this, the kernel could kill a process that writes there first.

    Args:
        fd: The memfd, which grows if the part ends beyond it.
        start: First byte.
        count: Bytes.
        what: What needs the memory, plural, for the error.
        remedy: What a user can do.

    Raises:
        MachineError: If there is not enough memory.
    """
    check_available(count, what, remedy)
    try:
        os.posix_fallocate(fd, start, count)
    except OSError as error:
        raise MachineError(f"{what} need {human_bytes(count)} of memory: {error.strerror}: {remedy}") from error


def create_empty(name: str) -> int:
    """Shared memory of size 0. A process that inherits it sets and seals the size, which the launcher does not know.

    Returns a descriptor as `create_segment` does.
    """
    return os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def map_segment(fd: int, size: int) -> tuple[mmap.mmap, int]:
    """Map what `create_segment` or `create_table` made. Returns the memory and its `slot_bytes`.

    After the header come one line per rank (see `RankTable`) and then, from `first_slot`, a slot and a staging area for
    each rank; a table has neither.

    Raises:
        UsageError: If the descriptor is something else, or was made for another number of ranks.
    """
    try:
        header = os.pread(fd, _HEADER.size, 0)
    except OSError as error:
        raise UsageError(
            f"descriptor {fd} is not a segment of create_segment: {error.strerror} (see pass_fds)"
        ) from error
    magic, made_for, slot_bytes = _HEADER.unpack(header.ljust(_HEADER.size, b"\0"))
    if magic != _MAGIC:
        raise UsageError(f"descriptor {fd} is not a segment of create_segment")
    if made_for != size:
        raise UsageError(f"the segment was made for {made_for} ranks, this group has {size}")
    return mmap.mmap(fd, 0, mmap.MAP_SHARED | mmap.MAP_POPULATE), slot_bytes


def first_slot(size: int) -> int:
    """The offset in bytes of the first slot in a segment of `size` ranks."""
    return in_pages(LINE_BYTES * (1 + size))


def in_pages(count: int) -> int:
    """Round a number of bytes up to whole pages."""
    return -(-count // mmap.PAGESIZE) * mmap.PAGESIZE
