"""The cores of the host that this process may use."""

import os
import platform
from pathlib import Path
from zlib import crc32

from gmi_drl.hardware.cgroups import cgroup_folders, read

NO_BF16 = "learner.bf16: the device has no bfloat16 (AVX512-BF16 or AMX, Ampere): --set learner.bf16=false"


def allowed_cores(root: Path = Path("/")) -> list[int]:
    """The CPU numbers that this process may use, ascending: its affinity, cut to the cgroup's quota (at least one).

    A quota limits the number of cores only. Containers of one host cannot see each other's choice, so each starts at a
    CPU that follows from a hash of its host name: else all would take CPU 0.
    """
    affinity = sorted(os.sched_getaffinity(0))
    quota = cgroup_quota(root)
    if quota is None or quota >= len(affinity):
        return affinity
    start = crc32(platform.node().encode()) % len(affinity)
    return sorted((affinity[start:] + affinity[:start])[: max(1, int(quota))])


def has_bf16(root: Path = Path("/")) -> bool:
    """Whether the cores multiply in bfloat16."""
    flags = next((line for line in read(root / "proc/cpuinfo").splitlines() if line.startswith("flags")), "").split()
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(flags)


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """The CPU quota of the cgroup in cores (v2 `cpu.max`, v1 `cpu.cfs_quota_us`); None without a limit."""
    quotas = [quota for folder in cgroup_folders(root, "cpu") if (quota := _quota_in(folder)) is not None]
    return min(quotas, default=None)


def _quota_in(folder: Path) -> float | None:
    quota, _, period = read(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = read(folder / "cpu.cfs_quota_us"), read(folder / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def siblings_of(cores: list[int]) -> tuple[tuple[int, ...], ...] | None:
    """Indices into `cores`, grouped by physical core; None if no two share one."""
    groups: dict[str, list[int]] = {}
    for index, core in enumerate(cores):
        topology = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        groups.setdefault(read(topology) or str(core), []).append(index)
    siblings = tuple(tuple(group) for group in groups.values())
    return siblings if len(siblings) < len(cores) else None
