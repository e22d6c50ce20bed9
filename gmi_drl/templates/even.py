"""Even cuts: cuts each device of a node into equal GMIs, and counts devices, cores and environments."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from typing import Any, Literal

from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware.gpus import find_gpu
from gmi_drl.hardware.node import Node
from gmi_drl.layout.backends import BACKENDS
from gmi_drl.layout.cut import AnyCut, Cut
from gmi_drl.layout.environment import thread_percentage
from gmi_drl.layout.layout import GMI, HOLISTIC, Device, Role
from gmi_drl.layout.mapping import even_mapping
from gmi_drl.units import counted

Cores = tuple[int, ...]


def even_devices(node: Node, cut: AnyCut, roles: tuple[Role, ...]) -> tuple[Device, ...]:
    """Cut every device of the node into equal GMIs with the same roles.

    Devices are the GPUs, or else the described CPU devices, or else all cores as one device. Hardware threads of a core
    stay together unless there are more GMIs than cores.

    Raises:
        NoFeasiblePlanError: if a device has fewer cores than GMIs, or the backend cannot make this cut.
    """
    require_division(node, cut)
    kind: Literal["cpu", "gpu"] = "gpu" if node.num_gpus else "cpu"
    shares = core_shares(node)
    given: dict[str, Any] = {} if roles == HOLISTIC else {"roles": roles}  # defaults need no check: 80,000 GMIs
    devices, next_id, models = [], 0, node.model_of_each_gpu
    for index, cores in zip(node.gpu_indices or range(len(shares)), shares, strict=True):
        own = cut.of(models[index] if models else "")
        parts = _distribute_cores(cores, own.gmis_per_gpu, f"{kind} {index}", share_cores=own.share_cores)
        limits = given | ({"share": 1 / own.gmis_per_gpu} if own.capped else {})
        gmis = tuple(GMI(id=next_id + i, num_env=own.num_env, cores=part, **limits) for i, part in enumerate(parts))
        devices.append(Device(kind=kind, index=index, gmis=gmis))
        next_id += own.gmis_per_gpu
    return tuple(devices)


def require_division(node: Node, cut: AnyCut) -> None:
    """Refuse a cut that its backend cannot make on the GPU models of a node.

    Raises:
        NoFeasiblePlanError: if it cannot.
    """
    if (why := backend_refusal(node, cut, memory_bytes=0)) is not None:
        fewer = backend_refusal(node, Cut(1, 1, cut.backend), memory_bytes=0) is None
        remedy = "ask for fewer GMIs, or take another --backend" if fewer else "take another --backend"
        raise NoFeasiblePlanError(f"{cut.backend}: {why}: {remedy}")


def more_gmis(template: str, count: int) -> str:
    """The remedy if a device has fewer than `count` GMIs; it names `plan`, as only that can share cores."""
    sharing = f"gmi-drl plan --template {template} --budget 0 --share-cores --gmis-per-gpu {count}"
    return f"ask for {count} or more (--gmis-per-gpu), or where cores are fewer let GMIs share them: {sharing}"


def backend_refusal(node: Node, cut: AnyCut, memory_bytes: int) -> str | None:
    """Why the GPU models of a node do not allow a cut into GMIs of this much memory; None if they do."""
    refuses = BACKENDS.find(cut.backend).refuses
    if refuses is None:
        return None
    if not node.num_gpus:
        return f"{node.name} has no GPU"
    reasons = (refuses(model, cut.of(model).gmis_per_gpu, memory_bytes) for model in _models(node))
    return next(filter(None, reasons), None)


def _models(node: Node) -> list[str]:
    return list(dict.fromkeys(part.model for part in node.used_models))


def shares_cores(devices: Sequence[Device]) -> bool:
    """Whether a core belongs to more than one GMI."""
    given = [(device.node, core) for device in devices for gmi in device.gmis for core in gmi.cores]
    return len(set(given)) < len(given)


def usual_gmis_per_gpu(node: Node) -> int:
    """The default number of GMIs per device: one per physical core on a CPU, one on a GPU."""
    return 1 if node.num_gpus else len(core_shares(node)[0])


def described(devices: Sequence[Device], cut: AnyCut, node: Node, each: str | None = None) -> str:
    """An even layout in a sentence. `each` says to what the environments belong, by default to each GMI."""
    num_gmis, kind = sum(len(device.gmis) for device in devices), devices[0].kind.upper()
    where = f"{len(devices)} {kind} devices" if len(devices) > 1 else kind
    speed = "" if each else ", so its speed is meaningless"  # GMIs with different roles wait for each other anyway
    each = each or (" each" if num_gmis > 1 else "")
    sharing = f", which take turns on cores{speed}" if shares_cores(devices) else ""
    gives = BACKENDS.find(cut.backend).gives
    instances = {model: gives(model, cut.of(model).gmis_per_gpu) for model in _models(node)} if gives else {}
    parts = "; ".join(
        f"{cut.backend} can make {what} of each {model} (--apply-mig)" for model, what in instances.items() if what
    )
    known = "" if BACKENDS.find(cut.backend).refuses is None else _unknown(node)
    alike = f"{cut.num_env} environments{each}" if isinstance(cut, Cut) else cut.described
    text = f"{counted(num_gmis, 'GMI')} on the {where} of {node.name}, {alike}{sharing}"
    return "; ".join(filter(None, (text, parts, _share(cut, node), known)))


def _unknown(node: Node) -> str:
    """A sentence about GPU models that the catalogue does not have; empty if it has all."""
    models = [model for model in _models(node) if find_gpu(model) is None]
    return (
        f"the catalogue has no {' or '.join(models)}, so it was not checked whether it can be cut in this way"
        if models
        else ""
    )


def _share(cut: AnyCut, node: Node) -> str:
    """The part of a GPU to which each GMI is capped, in words, or that there is none; empty if no backend caps them."""
    if not node.num_gpus or not BACKENDS.find(cut.backend).caps:
        return ""
    models: dict[Cut, list[str]] = {}
    for model in _models(node):
        models.setdefault(cut.of(model).with_num_env(1), []).append(model)
    caps = (_part_of_a_gpu(own, alike) for own, alike in models.items() if own.gmis_per_gpu > 1)
    return "; ".join(dict.fromkeys(caps))


def _part_of_a_gpu(cut: Cut, models: Sequence[str]) -> str:
    if not cut.capped:
        return "none is capped: each may use all SMs of its GPU"
    percent = thread_percentage(1 / cut.gmis_per_gpu)
    known = {model: gpu.sms for model in models if (gpu := find_gpu(model))}
    sms = " and ".join(f"{percent * count // 100} of {count} of {model}" for model, count in known.items())
    return f"each has at most {percent} % of its GPU's SMs" + (f" ({sms})" if sms else "")


def environments_of(cut: AnyCut, node: Node) -> int:
    """The environments of all GMIs of a node."""
    if isinstance(cut, Cut):
        return devices_of(node)[0] * cut.uncut.num_env
    return sum(count * cut.of(model).uncut.num_env for model, count in node.used_counts.items())


def mapping_of(cut: AnyCut, node: Node) -> list[range]:
    """The mapping list of a cut of a node: GMIs of each device, with consecutive ids."""
    if isinstance(cut, Cut):
        return even_mapping(devices_of(node)[0], cut.gmis_per_gpu)
    models = node.model_of_each_gpu
    ends = list(accumulate(cut.of(models[index]).gmis_per_gpu for index in node.gpu_indices))
    return [range(start, end) for start, end in pairwise([0, *ends])]


@lru_cache(4)
def devices_of(node: Node) -> tuple[int, int]:
    """The number of devices of a node, and the most GMIs that each can have, since every GMI needs a core."""
    shares = core_shares(node)
    return len(shares), min(sum(map(len, share)) for share in shares)


@lru_cache(4)
def core_shares(node: Node) -> list[Sequence[Cores]]:
    """Physical cores (tuples of core indices) of each device. Cached, since plans need them for each point."""
    physical = node.cpu.physical
    if node.num_gpus:
        return _even(physical, node.num_gpus, "GPUs")
    if node.cpus is None:
        return [physical]
    each = node.cpus.cores_each
    singles = hardware_threads(physical)
    return [singles[i * each : (i + 1) * each] for i in range(node.cpus.count)]


def _distribute_cores(physical: Sequence[Cores], count: int, device: str, *, share_cores: bool) -> list[Cores]:
    """Cores for `count` GMIs of one device, as equal as whole physical cores allow."""
    if count > len(physical):  # hardware threads of a core must be separated
        physical = hardware_threads(physical)
    if count > len(physical) and share_cores:
        return [physical[number % len(physical)] for number in range(count)]
    if count > len(physical):
        remedy = "ask for fewer, or let them take turns on cores (gmi-drl plan --budget 0 --share-cores)"
        raise NoFeasiblePlanError(f"{count} GMIs on {device} need {count} cores, it has {len(physical)}: {remedy}")
    return [tuple(sorted(chain.from_iterable(part))) for part in _even(physical, count, "GMIs")]


def hardware_threads(physical: Sequence[Cores]) -> list[Cores]:
    """Every hardware thread as a core of its own."""
    return [(core,) for group in physical for core in group]


def _even(items: Sequence[Cores], parts: int, what: str) -> list[Sequence[Cores]]:
    """Consecutive parts whose lengths differ by at most one."""
    if parts > len(items):
        raise NoFeasiblePlanError(f"{parts} {what} need {parts} physical cores, the node has {len(items)}")
    ends = [round(len(items) * i / parts) for i in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(ends)]
