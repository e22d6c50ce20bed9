"""How fast vectors go between the GMIs of this machine: a micro-benchmark of about two seconds, remembered."""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.files import FileModel, load_json, write_atomically
from gmi_drl.gmi import claimed
from gmi_drl.hardware import Node
from gmi_drl.launch.opened import opened_briefly
from gmi_drl.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.mapping import MappingList
from gmi_drl.profiler.cache import cache_folder
from gmi_drl.reduction_method import Kind, ReductionMethod
from gmi_drl.reductions import HAR, IPC, MPR_GLOO, MPR_SHM, NCCL_FLAT
from gmi_drl.run.folder import versions
from gmi_drl.speeds import Speed, Speeds

NUMELS = (1_000, 1_000_000)
"""Float32 numbers: of few the rounds tell, of many the bytes."""

METHODS = (MPR_SHM, MPR_GLOO, HAR, IPC, NCCL_FLAT)
"""Each has one way that those before it have not. What is not legal, or what the machine cannot, is left out."""

SECONDS = 0.3
"""For each method and number."""

LEAST_ROUND_S = 1e-7
HANG_S = 30.0
ROLE = "gmi_drl.roles.speed_probe:SpeedProbe"


class SpeedFile(FileModel):
    """What is remembered of one node."""

    speeds: dict[str, Speed]


def speeds_here(node: Node, *, fresh: bool = False, tell: Callable[[str], None] = lambda line: None) -> Speeds | None:
    """The speeds of this machine's ways, measured now or before; None where they cannot be.

    Args:
        node: This machine.
        fresh: Measure anew what was measured before.
        tell: Told what is going on, in a line.
    """
    with suppress(UsageError):
        if not fresh:
            return load_json(SpeedFile, _path(node), "speeds").speeds
    tell("measuring how fast GMIs reduce, once per machine, outside of the budget")
    try:
        speeds = measured_speeds(node)
    except GmiError as error:
        tell(f"that is not known: {str(error).splitlines()[0]}")
        return None
    with suppress(OSError):  # a folder that cannot be written costs the memory, never the measurement
        remember(node, speeds)
    return speeds


def remember(node: Node, speeds: Speeds) -> None:
    """Keep the speeds of a node for `speeds_here`. Raises OSError where that cannot be."""
    path = _path(node)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, SpeedFile(speeds=dict(speeds)).model_dump_json())


def measured_speeds(node: Node) -> Speeds:
    """Those of the ways between two GMIs: on two devices of the node, or on its one GPU.

    Raises:
        GmiError: If they cannot be measured, as on one core.
    """
    layout = _layout(node)
    mapping = [[gmi.id for gmi in device.gmis] for device in layout.devices]
    names = {method: [_group(method, numel) for numel in NUMELS] for method in METHODS}
    numels = {name: numel for some in names.values() for name, numel in zip(some, NUMELS, strict=True)}
    known = {name: numel for name, numel in numels.items() if name in layout.groups}
    times = _run(layout, {"numels": known, "seconds": SECONDS})
    pairs = {method: (times[few], times[many]) for method, (few, many) in names.items() if {few, many} <= times.keys()}
    return fitted(pairs, mapping)


def fitted(times: Mapping[ReductionMethod, tuple[float, float]], mapping: MappingList) -> Speeds:
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


def _layout(node: Node) -> Layout:
    """Two GMIs of a core each, in a group for each method and number."""
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
    legal = [method for method in METHODS if method.is_for(mapping, kind, node.cpu.architecture)]
    groups = {
        _group(method, numel): GmiGroup(members=(0, 1), reduction=method.name) for method in legal for numel in NUMELS
    }
    return Layout(devices=devices, groups=groups)


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


def _path(node: Node) -> Path:
    methods = [method.name for method in METHODS]
    key = {"node": node.model_dump(mode="json"), "versions": versions(), "methods": methods}
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / "speeds" / f"{digest}.json"
