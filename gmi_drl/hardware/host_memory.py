"""The host's memory: how much this process may use, and how much is free now."""

from collections.abc import Iterator
from pathlib import Path

import psutil

from gmi_drl.errors import MachineError
from gmi_drl.hardware.cgroups import cgroup_folders, read
from gmi_drl.units import human_bytes

SPARE_BYTES = 64 * 2**20
"""Bytes that `check_available` leaves to other processes."""

_LIMITS = ("memory.max", "memory.high", "memory.limit_in_bytes")  # the last one is of v1, also in the next two lines
_USED = ("memory.current", "memory.usage_in_bytes")
_RECLAIMABLE = ("inactive_file", "total_inactive_file")  # including cgroups below, which v1 calls "total"


def memory_bytes(root: Path = Path("/")) -> int:
    """Bytes of host memory that this process may use: the machine's, or a cgroup's limit if lower."""
    return min([psutil.virtual_memory().total, *(limit for _, limit in _limits(root))])


def available_bytes(root: Path = Path("/")) -> int:
    """Bytes of host memory that this process can still take before the kernel swaps or kills a process.

    The minimum of what the machine has available, and of what the cgroups of the process have left. Cached pages of
    files that were not used recently do not count as used.
    """
    left = (limit - _used(folder) for folder, limit in _limits(root))
    return max(0, min([psutil.virtual_memory().available, *left]))


def machine_bytes() -> int:
    """Bytes that the machine has available, also where cgroups leave less of them to this process."""
    return int(psutil.virtual_memory().available)


def memory_group(root: Path = Path("/")) -> str:
    """An id of the cgroup that limits this process's memory most; empty without a limit. Of this machine alone."""
    limits = sorted(_limits(root), key=lambda one: one[1])
    if not limits:
        return ""
    found = limits[0][0].stat()
    return f"{found.st_dev}:{found.st_ino}"


def check_available(wanted: int, what: str, remedy: str) -> None:
    """Raise `MachineError` unless `wanted` bytes and `SPARE_BYTES` are available.

    Call it before taking memory: the kernel does not refuse an allocation, it kills a process that uses too much.

    Args:
        wanted: Bytes.
        what: What needs them, in the plural.
        remedy: What a user can do.
    """
    available = available_bytes()
    if wanted + SPARE_BYTES > available:
        room = f"{human_bytes(available)} are available, of which {human_bytes(SPARE_BYTES)} are left alone"
        raise MachineError(f"{what} need {human_bytes(wanted)} of memory, but {room}: {remedy}")


def _limits(root: Path) -> Iterator[tuple[Path, int]]:
    for folder in cgroup_folders(root, "memory"):
        for name in _LIMITS:
            if (text := read(folder / name)).isdigit():
                yield folder, int(text)


def _used(folder: Path) -> int:
    used = next((int(text) for name in _USED if (text := read(folder / name)).isdigit()), 0)
    counts = dict(line.split() for line in read(folder / "memory.stat").splitlines())
    return used - max(int(counts.get(name, 0)) for name in _RECLAIMABLE)
