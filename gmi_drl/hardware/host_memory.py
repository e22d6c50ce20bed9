"""Memory of the host: how much this process may use, and how much of that is free now."""

from collections.abc import Iterator
from pathlib import Path

import psutil

from gmi_drl.errors import MachineError
from gmi_drl.hardware.cgroups import cgroup_folders, read
from gmi_drl.units import human_bytes

SPARE_BYTES = 64 * 2**20
"""What `check_available` leaves to everybody else."""

_LIMITS = ("memory.max", "memory.high", "memory.limit_in_bytes")  # the last one is of v1, as in the next two lines
_USED = ("memory.current", "memory.usage_in_bytes")
_RECLAIMABLE = ("inactive_file", "total_inactive_file")  # with those of cgroups below: v1 says so by "total"


def memory_bytes(root: Path = Path("/")) -> int:
    """Host memory that this process may use: the machine's, or a cgroup's limit where that is lower."""
    return min([psutil.virtual_memory().total, *(limit for _, limit in _limits(root))])


def available_bytes(root: Path = Path("/")) -> int:
    """Host memory that this process can still take before the kernel swaps, or ends a process.

    The least of what the machine has available and of what the process's cgroup and those above it leave of their
    limits. Cached pages of files that were not used of late do not count as used.
    """
    left = (limit - _used(folder) for folder, limit in _limits(root))
    return max(0, min([psutil.virtual_memory().available, *left]))


def check_available(wanted: int, what: str, remedy: str) -> None:
    """Raise `MachineError` unless so many bytes and `SPARE_BYTES` are available.

    To be called before memory is taken: the kernel does not refuse it, it ends a process that touches too much.

    Args:
        wanted: Bytes.
        what: Needs them, plural.
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
