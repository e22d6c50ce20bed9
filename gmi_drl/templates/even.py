"""Even cuts: each device of a node is cut into GMIs that are alike, for templates whose GMIs are."""

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
    stay together unless GMIs outnumber the cores.

    Raises:
        NoFeasiblePlanError: if a device has fewer cores than GMIs, or the backend cannot cut it into so many.
    """
    require_division(node, cut)
    kind: Literal["cpu", "gpu"] = "gpu" if node.num_gpus else "cpu"
    shares = _core_shares(node)
    given: dict[str, Any] = {} if roles == HOLISTIC else {"roles": roles}  # a default is not checked 80,000 times
    devices, next_id, models = [], 0, node.model_of_each_gpu
    for index, cores in zip(node.gpu_indices or range(len(shares)), shares, strict=True):
        own = cut.of(models[index] if models else "")
        parts = _deal(cores, own.gmis_per_gpu, f"{kind} {index}", share_cores=own.share_cores)
        limits = given | ({"share": 1 / own.gmis_per_gpu} if own.capped else {})
        gmis = tuple(GMI(id=next_id + i, num_env=own.num_env, cores=part, **limits) for i, part in enumerate(parts))
        devices.append(Device(kind=kind, index=index, gmis=gmis))
        next_id += own.gmis_per_gpu
    return tuple(devices)


def require_division(node: Node, cut: AnyCut) -> None:
    """Refuse a cut that its backend cannot make of the devices of a node, as far as their models tell.

    Raises:
        NoFeasiblePlanError: if it cannot.
    """
    if (why := backend_refusal(node, cut, memory_bytes=0)) is not None:
        fewer = backend_refusal(node, Cut(1, 1, cut.backend), memory_bytes=0) is None
        remedy = "ask for fewer GMIs, or take another --backend" if fewer else "take another --backend"
        raise NoFeasiblePlanError(f"{cut.backend}: {why}: {remedy}")


def more_gmis(template: str, count: int) -> str:
    """The remedy where a device has fewer than `count` GMIs, whichever command was asked: only `plan` shares cores."""
    sharing = f"gmi-drl plan --template {template} --budget 0 --share-cores --gmis-per-gpu {count}"
    return f"ask for {count} or more (--gmis-per-gpu), or where cores are fewer let GMIs share them: {sharing}"


def backend_refusal(node: Node, cut: AnyCut, memory_bytes: int) -> str | None:
    """Why a node cannot be cut so into GMIs of so much memory, as far as its models tell; None if it can."""
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
    """Whether a core is given to more than one GMI."""
    given = [(device.node, core) for device in devices for gmi in device.gmis for core in gmi.cores]
    return len(set(given)) < len(given)


def usual_gmis_per_gpu(node: Node) -> int:
    """Where nobody says how many: on a CPU one GMI per physical core, on a GPU one."""
    return 1 if node.num_gpus else len(_core_shares(node)[0])


def described(devices: Sequence[Device], cut: AnyCut, node: Node, each: str | None = None) -> str:
    """The form of an even layout in a sentence; `each` says whose the environments are, by default each GMI's."""
    num_gmis, kind = sum(len(device.gmis) for device in devices), devices[0].kind.upper()
    where = f"{len(devices)} {kind} devices" if len(devices) > 1 else kind
    speed = "" if each else ", so that no speed of it says anything"  # those with unlike roles wait for each other
    each = each or (" each" if num_gmis > 1 else "")
    turns = f", which take turns on cores{speed}" if shares_cores(devices) else ""
    gives = BACKENDS.find(cut.backend).gives
    told = {model: gives(model, cut.of(model).gmis_per_gpu) for model in _models(node)} if gives else {}
    parts = "; ".join(
        f"{cut.backend} can make {what} of each {model} (--apply-mig)" for model, what in told.items() if what
    )
    known = "" if BACKENDS.find(cut.backend).refuses is None else _unknown(node)
    alike = f"{cut.num_env} environments{each}" if isinstance(cut, Cut) else cut.described
    text = f"{counted(num_gmis, 'GMI')} on the {where} of {node.name}, {alike}{turns}"
    return "; ".join(filter(None, (text, parts, _share(cut, node), known)))


def _unknown(node: Node) -> str:
    """Models of which no catalogue says how they can be cut."""
    models = [model for model in _models(node) if find_gpu(model) is None]
    return (
        f"nothing is known of {' and '.join(models)}, so that nobody has checked whether it can be cut so"
        if models
        else ""
    )


def _share(cut: AnyCut, node: Node) -> str:
    """The part of its GPU that a backend holds each GMI to, where it may be told one; that there is none, else."""
    if not node.num_gpus or not BACKENDS.find(cut.backend).caps:
        return ""
    models: dict[Cut, list[str]] = {}
    for model in _models(node):
        models.setdefault(cut.of(model).with_num_env(1), []).append(model)
    told = (_part_of_a_gpu(own, alike) for own, alike in models.items() if own.gmis_per_gpu > 1)
    return "; ".join(dict.fromkeys(told))


def _part_of_a_gpu(cut: Cut, models: Sequence[str]) -> str:
    if not cut.capped:
        return "none is capped: each may use all SMs of its GPU"
    percent = thread_percentage(1 / cut.gmis_per_gpu)
    known = {model: gpu.sms for model in models if (gpu := find_gpu(model))}
    sms = " and ".join(f"{percent * count // 100} of {count} of {model}" for model, count in known.items())
    return f"each has at most {percent} % of its GPU's SMs" + (f" ({sms})" if sms else "")


def environments_of(cut: AnyCut, node: Node) -> int:
    """Of all GMIs of a node."""
    if isinstance(cut, Cut):
        return devices_of(node)[0] * cut.uncut.num_env
    return sum(count * cut.of(model).uncut.num_env for model, count in node.used_counts.items())


def mapping_of(cut: AnyCut, node: Node) -> list[range]:
    """The GMIs of each device of a node, their ids in a row."""
    if isinstance(cut, Cut):
        return even_mapping(devices_of(node)[0], cut.gmis_per_gpu)
    models = node.model_of_each_gpu
    ends = list(accumulate(cut.of(models[index]).gmis_per_gpu for index in node.gpu_indices))
    return [range(start, end) for start, end in pairwise([0, *ends])]


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


def _deal(physical: Sequence[Cores], count: int, device: str, *, share_cores: bool) -> list[Cores]:
    """Cores for `count` GMIs of one device, as even as whole physical cores allow."""
    if count > len(physical):  # siblings must be parted
        physical = _threads(physical)
    if count > len(physical) and share_cores:
        return [physical[number % len(physical)] for number in range(count)]
    if count > len(physical):
        remedy = "ask for fewer, or let them take turns on cores (gmi-drl plan --budget 0 --share-cores)"
        raise NoFeasiblePlanError(f"{count} GMIs on {device} need {count} cores, it has {len(physical)}: {remedy}")
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
