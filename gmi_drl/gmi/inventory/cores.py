"""The host: the cores and the memory that this process may use."""

import os
import platform
from pathlib import Path
from zlib import crc32

import psutil


def allowed_cores(root: Path = Path("/")) -> list[int]:
    """The CPU numbers that this process may use, ascending: its affinity, cut to the cgroup's quota (at least one).

    A quota says how many but not which. Containers of one host, which know nothing of each other, begin to count at a
    place that their host names give, so that they do not all meet on CPU 0.
    """
    affinity = sorted(os.sched_getaffinity(0))
    quota = cgroup_quota(root)
    if quota is None or quota >= len(affinity):
        return affinity
    start = crc32(platform.node().encode()) % len(affinity)
    return sorted((affinity[start:] + affinity[:start])[: max(1, int(quota))])


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """Cores' worth of time that the cgroup grants (v2 `cpu.max`, v1 `cpu.cfs_quota_us`); None without a limit."""
    quotas = [quota for folder in _cgroup_folders(root, "cpu") if (quota := _quota_in(folder)) is not None]
    return min(quotas, default=None)


def memory_bytes(root: Path = Path("/")) -> int:
    """Host memory that this process may use: the machine's, or the cgroup's limit where that is lower."""
    limits = [psutil.virtual_memory().total]
    for folder in _cgroup_folders(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _read(folder / name)
            if text.isdigit():
                limits.append(int(text))
    return min(limits)


def _cgroup_folders(root: Path, controller: str) -> list[Path]:
    """The folders that may limit this process, v2 and v1, from its own cgroup up to the root of the hierarchy."""
    base = root / "sys/fs/cgroup"
    folders = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, place = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = base / controller if controllers else base
        own = top / place.lstrip("/")
        folders += [own, *(parent for parent in own.parents if parent.is_relative_to(top))]
    return folders


def _quota_in(folder: Path) -> float | None:
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def siblings_of(cores: list[int]) -> tuple[tuple[int, ...], ...] | None:
    """Indices into `cores` grouped by physical core; None where each core is its own."""
    groups: dict[str, list[int]] = {}
    for index, core in enumerate(cores):
        topology = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        groups.setdefault(_read(topology) or str(core), []).append(index)
    siblings = tuple(tuple(group) for group in groups.values())
    return siblings if len(siblings) < len(cores) else None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
