"""The even cut of a node with GPUs into workers: actors on cores, a trainer and policy workers on each GPU."""

from collections.abc import Sequence
from typing import Any

from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware.node import Node
from gmi_drl.layout.backends import MIG, MIG_CI
from gmi_drl.layout.cut import AnyCut, Cut
from gmi_drl.layout.layout import GMI, Device, Role
from gmi_drl.templates.even import Cores, core_shares, hardware_threads, require_division
from gmi_drl.templates.tcg import SERVING
from gmi_drl.units import counted

USUAL = 2
"""GMIs of each GPU unless told: a policy worker and a trainer."""

_SERVES: tuple[Role, ...] = ("agent",)
_TRAINS: tuple[Role, ...] = ("trainer",)


def cut_with_gpus(node: Node, cut: AnyCut) -> tuple[Device, ...]:
    """Cut a node with GPUs: an actor on each core that the GMIs of GPUs leave, and the last GMI of each GPU trains.

    The other GMIs of a GPU are policy workers. Without any, actors have an agent each. Each GMI of a GPU has a core.

    Raises:
        NoFeasiblePlanError: if cores are too few, or the backend cannot make this cut.
    """
    if cut.backend in (MIG.name, MIG_CI.name):
        remedy = "take --backend mps or process"
        raise NoFeasiblePlanError(f"actors of workers are on cores, and {cut.backend} cuts GPUs alone: {remedy}")
    require_division(node, cut)
    models, indices = node.model_of_each_gpu, node.gpu_indices
    cuts = [cut.of(models[index]) for index in indices]
    acts: tuple[Role, ...] = ("simulator",) if any(own.gmis_per_gpu > 1 for own in cuts) else SERVING
    parts = [_divided(share, own, index) for share, own, index in zip(core_shares(node), cuts, indices, strict=True)]
    acting = [(own, core) for own, (_, left) in zip(cuts, parts, strict=True) for core in left]
    actors = [GMI(id=n, roles=acts, num_env=own.num_env, cores=core) for n, (own, core) in enumerate(acting)]
    devices, first = [Device(kind="cpu", gmis=tuple(actors))], len(actors)
    for index, own, (cores, _) in zip(indices, cuts, parts, strict=True):
        devices.append(Device(kind="gpu", index=index, gmis=_on_gpu(own, cores, first)))
        first += own.gmis_per_gpu
    return tuple(devices)


def told(devices: Sequence[Device], node: Node) -> str:
    """Such a cut in a sentence."""
    (on_cores, *on_gpus) = devices
    actors, policies = on_cores.gmis, len(on_gpus[0].gmis) - 1
    inference = counted(policies, "policy worker") if policies else ""
    services = " and ".join(filter(None, (inference, "1 trainer")))
    inline = "" if policies else " with inline inference"
    where = "its GPU" if len(on_gpus) == 1 else f"each of its {len(on_gpus)} GPUs"
    each = f"{actors[0].num_env} environments" + (" each" if len(actors) > 1 else "")
    return f"{counted(len(actors), 'actor')}{inline} on the cores of {node.name}, {each}; {services} on {where}"


def _on_gpu(cut: Cut, cores: Sequence[Cores], first: int) -> tuple[GMI, ...]:
    """The GMIs of a GPU, with ids from `first` on."""
    roles = [_SERVES] * (cut.gmis_per_gpu - 1) + [_TRAINS]
    limits: dict[str, Any] = {"share": 1 / cut.gmis_per_gpu} if cut.capped else {}
    return tuple(
        GMI(id=first + n, roles=its, cores=core, **limits)
        for n, (its, core) in enumerate(zip(roles, cores, strict=True))
    )


def _divided(physical: Sequence[Cores], cut: Cut, gpu: int) -> tuple[Sequence[Cores], Sequence[Cores]]:
    """The cores beside a GPU: one for each of its GMIs, and those of actors."""
    count, fewest = cut.gmis_per_gpu, max(1, cut.gmis_per_gpu - 1)  # each policy worker needs an actor
    if len(physical) < count + fewest:  # hardware threads of a core must be separated
        physical = hardware_threads(physical)
    if len(physical) >= count + fewest:
        return physical[:count], physical[count:]
    if cut.share_cores and len(physical) >= fewest:
        return [physical[number % len(physical)] for number in range(count)], physical
    workers = f"{counted(count, 'GMI')} of GPU {gpu} and {counted(fewest, 'actor')}"
    needs = f"{workers} need {count + fewest} cores, it has {len(physical)}"
    remedy = "ask for fewer, or let them take turns on cores (gmi-drl plan --template workers --budget 0 --share-cores)"
    raise NoFeasiblePlanError(f"{needs}: {remedy}")
