"""TCG_EX, the template of synchronous training: every GMI is holistic (paper section 5.1, Figure 6a)."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Literal

from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware import Node
from gmi_drl.layout import GMI, Device

Cores = tuple[int, ...]


def tcg_ex(node: Node, gmis_per_gpu: int | None, num_env: int) -> tuple[Device, ...]:
    """Cut every device of the node into equal holistic GMIs of `num_env` environments.

    Devices are the GPUs, or else the described CPU devices, or else all cores as one device. On a CPU the default is
    one GMI per physical core, on a GPU one. Hardware threads of a core stay together unless GMIs outnumber the cores.

    Raises:
        NoFeasiblePlanError: if a device has fewer cores than GMIs.
    """
    kind: Literal["cpu", "gpu"] = "gpu" if node.num_gpus else "cpu"
    shares = _core_shares(node)
    devices, next_id = [], 0
    for index, cores in enumerate(shares):
        count = gmis_per_gpu or (1 if kind == "gpu" else len(cores))
        parts = _deal(cores, count, f"{kind} {index}")
        gmis = tuple(GMI(id=next_id + i, num_env=num_env, cores=part) for i, part in enumerate(parts))
        devices.append(Device(kind=kind, index=index, gmis=gmis))
        next_id += count
    return tuple(devices)


@lru_cache(4)
def devices_of(node: Node) -> tuple[int, int]:
    """How many devices a node has, and how many GMIs each can hold at most: every GMI needs a core."""
    shares = _core_shares(node)
    return len(shares), min(sum(map(len, share)) for share in shares)


@lru_cache(4)
def _core_shares(node: Node) -> list[Sequence[Cores]]:
    """Physical cores (tuples of core indices) for each device. Remembered, as plans ask for each of their points."""
    physical = node.cpu.physical
    if node.num_gpus:
        return _even(physical, node.num_gpus, "GPUs")
    if node.cpus is None:
        return [physical]
    each = node.cpus.cores_each
    singles = _threads(physical)
    return [singles[i * each : (i + 1) * each] for i in range(node.cpus.count)]


def _deal(physical: Sequence[Cores], count: int, device: str) -> list[Cores]:
    """Cores for `count` GMIs of one device, as even as whole physical cores allow."""
    if count > len(physical):  # siblings must be parted
        physical = _threads(physical)
    if count > len(physical):
        raise NoFeasiblePlanError(f"{count} GMIs on {device} need {count} cores, it has {len(physical)}: ask for fewer")
    return [tuple(sorted(chain.from_iterable(part))) for part in _even(physical, count, "GMIs")]


def _threads(physical: Sequence[Cores]) -> list[Cores]:
    """Every hardware thread as a core of its own."""
    return [(core,) for group in physical for core in group]


def _even(items: Sequence[Cores], parts: int, what: str) -> list[Sequence[Cores]]:
    """Consecutive parts whose lengths differ by at most one."""
    if parts > len(items):
        raise NoFeasiblePlanError(f"{parts} {what} need {parts} physical cores, the node has {len(items)}")
    ends = [round(len(items) * i / parts) for i in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(ends)]
