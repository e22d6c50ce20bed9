"""Memory that the ranks of a group share: made by the launcher, inherited by descriptor, gone with its last holder."""

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

    Slots are whole pages, since CUDA registers pages: neighbours share none.

    Returns a file descriptor for `subprocess`'s `pass_fds`; the memory has no name and ends with its last holder.
    A segment serves one group once.

    Raises:
        UsageError: If a number is not positive.
        MachineError: If there is not enough memory.
    """
    if size < 1 or slot_bytes < 1:
        raise UsageError(f"a segment needs size >= 1 and slot_bytes >= 1, not {size} and {slot_bytes}")
    slot_bytes = in_pages(slot_bytes)
    return _created(size, slot_bytes, first_slot(size) + size * (slot_bytes + STAGING_BYTES))


def create_table(size: int) -> int:
    """A segment without slots: a line for each of `size` ranks (see `Peers`), who move their data in another way.

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
    """Give a part of a memfd its memory; without it, who first writes there could be ended by the kernel.

    Args:
        fd: The memfd, which grows where the part ends beyond it.
        start: First byte.
        count: Bytes.
        what: Needs them, plural, for the error.
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
    """Shared memory without a size, for a launcher that does not know it: one who inherits it sets and seals it.

    Returns a descriptor as `create_segment` does.
    """
    return os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def map_segment(fd: int, size: int) -> tuple[mmap.mmap, int]:
    """Map what `create_segment` or `create_table` made: the memory and its `slot_bytes`.

    After the header come one line per rank (see `Peers`), then, at `first_slot`, per rank a slot and a staging area,
    but in a table neither.

    Raises:
        UsageError: If the descriptor is something else, or made for another number of ranks.
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
    """Bytes before the first slot of a segment for `size` ranks."""
    return in_pages(LINE_BYTES * (1 + size))


def in_pages(count: int) -> int:
    """Round a number of bytes up to whole pages."""
    return -(-count // mmap.PAGESIZE) * mmap.PAGESIZE
