"""The host's cores that this process may use."""

import os
import platform
from pathlib import Path
from zlib import crc32

from gmi_drl.hardware.cgroups import cgroup_folders, read


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
    quotas = [quota for folder in cgroup_folders(root, "cpu") if (quota := _quota_in(folder)) is not None]
    return min(quotas, default=None)


def _quota_in(folder: Path) -> float | None:
    quota, _, period = read(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = read(folder / "cpu.cfs_quota_us"), read(folder / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def siblings_of(cores: list[int]) -> tuple[tuple[int, ...], ...] | None:
    """Indices into `cores` grouped by physical core; None where each core is its own."""
    groups: dict[str, list[int]] = {}
    for index, core in enumerate(cores):
        topology = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        groups.setdefault(read(topology) or str(core), []).append(index)
    siblings = tuple(tuple(group) for group in groups.values())
    return siblings if len(siblings) < len(cores) else None
