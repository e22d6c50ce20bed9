"""How fast vectors go between the GMIs of this machine: a micro-benchmark of about two seconds, remembered.

GPUs are measured by each backend that a plan looks at, as GMIs under MPS or on MIG instances reduce otherwise.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from gmi_drl.config.learners import LearnerConfig
from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.files import FileModel, load_json, write_atomically
from gmi_drl.gmi import claimed
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import Speed, Speeds
from gmi_drl.launch.open_layout import opened_briefly
from gmi_drl.layout.backends import AUTO, BACKENDS, MPS, PROCESS
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.layout.mapping import MappingList
from gmi_drl.layout.reduction_method import Kind, ReductionMethod
from gmi_drl.layout.reductions import HAR, IPC, MPR_GLOO, MPR_SHM, NCCL_FLAT
from gmi_drl.profiler.budget import START_S, Budget
from gmi_drl.profiler.cache import cache_folder
from gmi_drl.profiler.points import pace_on
from gmi_drl.run.folder import versions
from gmi_drl.templates import Template
from gmi_drl.templates.cost import Communication
from gmi_drl.workload import TaskSpec

NUMELS = (1_000, 1_000_000)
"""Float32 numbers: of few the rounds tell, of many the bytes."""

METHODS = (MPR_SHM, MPR_GLOO, HAR, IPC, NCCL_FLAT)
"""Each has one way that those before it have not. What is not legal, or what the machine cannot, is left out."""

SECONDS = 0.3
"""For each method and number."""

LEAST_ROUND_S = 1e-7
HANG_S = 30.0
ROLE = "gmi_drl.roles.probes.speed_probe:SpeedProbe"


class SpeedFile(FileModel):
    """What is remembered of one node."""

    speeds: dict[str, Speed]


def speeds_here(
    node: Node,
    backends: Iterable[str],
    budget: Budget,
    *,
    fresh: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, dict[str, Speed]]:
    """The speeds of this machine's ways, by backend, measured now or before.

    A backend whose speeds cannot be measured has none; one is missing if the budget leaves no time for its speeds and a
    first point.

    Args:
        node: This machine.
        backends: What may cut its devices.
        budget: For what is measured now.
        fresh: Measure anew what was measured before.
        tell: Told what is going on, in a line.
    """
    measured_by = {backend: _measured_by(node, backend) for backend in backends}
    known = {} if fresh else remembered_speeds(node, measured_by.values())
    for backend in dict.fromkeys(measured_by.values()):
        if backend not in known and (speeds := _measured_now(node, backend, budget, tell)) is not None:
            known[backend] = speeds
    return {backend: known[by] for backend, by in measured_by.items() if by in known}


def remembered_speeds(node: Node, backends: Iterable[str]) -> dict[str, dict[str, Speed]]:
    """What is known of these backends on this machine without measuring."""
    known = {}
    for backend in backends:
        with suppress(UsageError):
            known[backend] = load_json(SpeedFile, _path(node, backend), "speeds").speeds
    return known


def known_communication(
    task: TaskSpec, learner: LearnerConfig, node: Node, template: Template, backend: str
) -> Communication | None:
    """What crosses the borders of GMIs, at speeds that were measured of this backend before.

    None where nothing was, and on cores, where the usual reduction is the fastest. What `auto` takes is known by MPS or
    by plain sharing.
    """
    tried = (MPS.name, PROCESS.name) if backend == AUTO.name else (backend,)
    known = remembered_speeds(node, tried) if node.num_gpus else {}
    speeds = next((known[name] for name in tried if name in known), None)
    return None if speeds is None else template.communication(task, learner, node, backend, {backend: speeds})


def remember(node: Node, backend: str, speeds: Speeds) -> None:
    """Keep the speeds of a node for `remembered_speeds`. Raises OSError where that cannot be."""
    path = _path(node, backend)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, SpeedFile(speeds=dict(speeds)).model_dump_json())


def measured_speeds(node: Node, backend: str = PROCESS.name) -> dict[str, Speed]:
    """Those of the ways between two GMIs: on two devices of the node, or on its one GPU.

    Raises:
        GmiError: If they cannot be measured, as on one core, or without MIG instances.
    """
    layout = _layout(node, backend)
    mapping = [[gmi.id for gmi in device.gmis] for device in layout.devices]
    names = {method: [_group(method, numel) for numel in NUMELS] for method in METHODS}
    numels = {name: numel for some in names.values() for name, numel in zip(some, NUMELS, strict=True)}
    known = {name: numel for name, numel in numels.items() if name in layout.groups}
    times = _run(layout, {"numels": known, "seconds": SECONDS})
    pairs = {method: (times[few], times[many]) for method, (few, many) in names.items() if {few, many} <= times.keys()}
    return fitted(pairs, mapping)


def fitted(times: Mapping[ReductionMethod, tuple[float, float]], mapping: MappingList) -> dict[str, Speed]:
    """The speeds by which the model takes as long as was measured, for the two `NUMELS`.

    Args:
        times: Seconds of both; each method has one way that those before it have not.
        mapping: On which they were measured.
    """
    speeds: dict[str, Speed] = {}
    few, many = (4.0 * numel for numel in NUMELS)
    for method, (few_s, many_s) in times.items():
        legs = [leg for leg in method.legs(mapping) if leg.way not in speeds]
        rounds, share = sum(leg.rounds for leg in legs), sum(leg.share for leg in legs)
        if not share or len({leg.way for leg in legs}) > 1:  # a ring within one device; one before was not measured
            continue
        way = legs[0].way
        free = speeds | {way: Speed(round_s=0.0, bytes_per_second=1e30)}
        few_s, many_s = few_s - method.seconds(mapping, few, free), many_s - method.seconds(mapping, many, free)
        second_per_byte = max((many_s - few_s) / (share * (many - few)), 1e-15)
        round_s = max((few_s - share * few * second_per_byte) / rounds, LEAST_ROUND_S)
        speeds[way] = Speed(round_s=round_s, bytes_per_second=1 / second_per_byte)
    return speeds


def _measured_by(node: Node, backend: str) -> str:
    """By which backend it is measured: cores are cut alike by all."""
    return backend if node.num_gpus else PROCESS.name


def _measured_now(node: Node, backend: str, budget: Budget, tell: Callable[[str], None]) -> dict[str, Speed] | None:
    """The speeds by one backend, none if measuring them fails; None if there is no time."""
    by = f" by {backend}" if node.num_gpus else ""
    try:
        expected_s = START_S + SECONDS * len(_layout(node, backend).groups)
        if budget.left_s < expected_s + pace_on(node).first_s:
            tell(f"no time to measure how fast GMIs reduce{by}, {expected_s:.0f} s: usual speeds are taken")
            return None
        tell(f"measuring how fast GMIs reduce{by}, once per machine")
        speeds = measured_speeds(node, backend)
    except GmiError as error:
        tell(f"how fast GMIs reduce{by} cannot be measured, so they use host memory: {str(error).splitlines()[0]}")
        return {}
    with suppress(OSError):  # a folder that cannot be written costs the memory, never the measurement
        remember(node, backend, speeds)
    return speeds


def _layout(node: Node, backend: str) -> Layout:
    """Two GMIs of a core each, in a group for each method that tells of a way, and each number."""
    physical = node.cpu.physical
    if len(physical) < 2:
        raise MachineError(f"two GMIs need two cores, {node.name} has one")
    gmis = tuple(GMI(id=number, roles=("trainer",), cores=physical[number][:1]) for number in range(2))
    kind: Kind = "gpu" if node.num_gpus else "cpu"
    if node.num_gpus == 1:
        devices: tuple[Device, ...] = (Device(kind=kind, index=node.gpu_indices[0], gmis=gmis),)
    else:
        indices = (node.gpu_indices or range(2))[:2]
        devices = tuple(Device(kind=kind, index=index, gmis=(gmi,)) for index, gmi in zip(indices, gmis, strict=True))
    mapping = [[gmi.id for gmi in device.gmis] for device in devices]
    groups = {
        _group(method, numel): GmiGroup(members=(0, 1), reduction=method.name)
        for method in _telling(mapping, kind, node.cpu.architecture, backend)
        for numel in NUMELS
    }
    return Layout(backend=backend, devices=devices, groups=groups)


def _telling(mapping: MappingList, kind: Kind, architecture: str, backend: str) -> list[ReductionMethod]:
    """The legal methods that move something by a way that those before them do not take."""
    telling: list[ReductionMethod] = []
    ways: set[str] = set()
    for method in METHODS:
        takes = {leg.way for leg in method.legs(mapping) if leg.share}
        is_legal = method.is_for(mapping, kind, architecture) and not (
            method.maps_memory and not BACKENDS.find(backend).maps_memory
        )
        if is_legal and takes - ways:
            telling.append(method)
            ways |= takes
    return telling


def _group(method: ReductionMethod, numel: int) -> str:
    return f"{method.name}-{numel}"


def _run(layout: Layout, params: Mapping[str, object]) -> dict[str, float]:
    """What rank 0 has measured."""
    with (
        claimed([layout], "gmi-drl plan") as claim,
        opened_briefly(claim, layout, ROLE, params, slot_bytes=4 * NUMELS[-1], hang_s=HANG_S) as processes,
    ):
        for _ in processes.events():
            pass
    times: dict[str, float] = processes.results[0]
    return times


def _path(node: Node, backend: str) -> Path:
    methods = [method.name for method in METHODS]
    by = _measured_by(node, backend)
    key = {"node": node.model_dump(mode="json"), "backend": by, "versions": versions(), "methods": methods}
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / "speeds" / f"{digest}.json"
