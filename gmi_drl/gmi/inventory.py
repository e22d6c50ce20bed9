"""This machine as a `Node`: the cores, memory and GPUs that this process may use. Needs no torch."""

import os
import platform
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import psutil

from gmi_drl.hardware import Cpu, Gpus, Node
from gmi_drl.units import GIB


def this_node() -> Node:
    """Describe this machine, within the affinity, the cgroup's quota and CUDA_VISIBLE_DEVICES of this process."""
    cores = allowed_cores()
    kinds = Counter((gpu.model, gpu.memory_gib) for gpu in visible_gpus())
    gpus = tuple(Gpus(model=model, count=count, memory_gib=size) for (model, size), count in kinds.items())
    return Node(
        name=platform.node() or "localhost",
        gpus=gpus or None,
        link="pcie" if kinds.total() > 1 else "none",
        cpu=Cpu(
            cores=len(cores),
            memory_gib=round(memory_bytes() / GIB, 1),
            siblings=_siblings(cores),
            architecture=platform.machine(),
        ),
    )


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


def _siblings(cores: list[int]) -> tuple[tuple[int, ...], ...] | None:
    """Indices into `cores` grouped by physical core; None where each core is its own."""
    groups: dict[str, list[int]] = {}
    for index, core in enumerate(cores):
        topology = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        groups.setdefault(_read(topology) or str(core), []).append(index)
    siblings = tuple(tuple(group) for group in groups.values())
    return siblings if len(siblings) < len(cores) else None


class VisibleGpu(NamedTuple):
    """A GPU that this process may use, and the memory of it that is in use by whomever."""

    model: str
    uuid: str
    memory_gib: float
    used_bytes: int
    driver: str


def visible_gpus() -> list[VisibleGpu]:
    """The GPUs that this process may use, in their order, as they are now; none where there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        gpus = [_describe(handle) for handle in handles]
    finally:
        pynvml.nvmlShutdown()
    return _let_through(gpus)


def _describe(handle: Any) -> VisibleGpu:
    import pynvml

    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    model, uuid = str(pynvml.nvmlDeviceGetName(handle)), str(pynvml.nvmlDeviceGetUUID(handle))
    driver = str(pynvml.nvmlSystemGetDriverVersion())
    return VisibleGpu(model, uuid, round(int(memory.total) / GIB, 1), int(memory.used), driver)


def _let_through(gpus: list[VisibleGpu]) -> list[VisibleGpu]:
    """Those that CUDA_VISIBLE_DEVICES lets through (indices or UUIDs), in its order."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return gpus
    known = {str(index): gpu for index, gpu in enumerate(gpus)} | {gpu.uuid: gpu for gpu in gpus}
    return [known[word.strip()] for word in chosen.split(",") if word.strip() in known]


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
