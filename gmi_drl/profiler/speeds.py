"""Measures how fast GMIs of this machine reduce vectors: a micro-benchmark of about two seconds, kept in the cache.

On GPUs it runs for each backend of a plan, since GMIs under MPS or on MIG instances reduce at other speeds.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from gmi_drl.config.learners import LearnerConfig
from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.files import FileModel, load_json, write_atomically
from gmi_drl.gmi import allowed_cores, claimed
from gmi_drl.gmi.inventory.core_load import CoreLoad
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import Speed, Speeds
from gmi_drl.launch.open_layout import opened_briefly
from gmi_drl.layout.backends import AUTO, BACKENDS, MPS, PROCESS
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.layout.mapping import MappingList
from gmi_drl.layout.reduction_method import Kind, ReductionMethod
from gmi_drl.layout.reductions import HAR, IPC, MPR_GLOO, MPR_SHM, NCCL_FLAT
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.cache import cache_folder
from gmi_drl.profiler.points import pace_on
from gmi_drl.run.folder import versions
from gmi_drl.scheduler.profile import is_disturbed
from gmi_drl.templates import Template, devices_of
from gmi_drl.templates.cost import Communication
from gmi_drl.workload import TaskSpec

NUMELS = (1_000, 1_000_000)
"""Float32 numbers of the two vectors: the small one shows the time of rounds, the large one that of bytes."""

METHODS = (MPR_SHM, MPR_GLOO, HAR, IPC, NCCL_FLAT)
"""Each uses one way that those before it do not. Methods that are not legal, or cannot run here, are left out."""

SECONDS = 0.3
"""Seconds for each method and vector."""

LEAST_ROUND_S = 1e-7
HANG_S = 30.0
ROLE = "gmi_drl.roles.probes.speed_probe:SpeedProbe"


class SpeedFile(FileModel):
    """The file with the speeds of a node."""

    speeds: dict[str, Speed]


def speeds_here(
    node: Node,
    backends: Iterable[str],
    budget: Budget,
    *,
    fresh: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, dict[str, Speed]]:
    """The speeds of this machine's ways by backend, measured now or read from the cache.

    If measuring a backend fails, its speeds are empty. If the budget leaves no time for its speeds and a first point,
    the backend is missing.

    Args:
        node: This machine.
        backends: The backends that may cut its devices.
        budget: For measuring.
        fresh: Measure again what was measured before.
        tell: Called with each line about progress.
    """
    measured_by = {backend: _measured_by(node, backend) for backend in backends}
    known = {} if fresh else remembered_speeds(node, measured_by.values())
    for backend in dict.fromkeys(measured_by.values()):
        if backend not in known and (speeds := _measured_now(node, backend, budget, tell)) is not None:
            known[backend] = speeds
    return {backend: known[by] for backend, by in measured_by.items() if by in known}


class SpeedsWhenAsked:
    """The speeds of this machine, each backend's measured when they are first asked for.

    Args:
        task: The task.
        learner: The learner.
        node: This machine.
        template: The template; if its GMIs do not reduce, there are no speeds.
        fresh: Measure again what was measured before.
        tell: Called with each line about progress.

    Attributes:
        known: What was measured so far.
    """

    def __init__(
        self,
        task: TaskSpec,
        learner: LearnerConfig,
        node: Node,
        template: Template,
        *,
        fresh: bool,
        tell: Callable[[str], None],
    ) -> None:
        self.known: dict[str, dict[str, Speed]] = {}
        self._reduces = template.communication(task, learner, node).reduces > 0
        self._node, self._fresh, self._tell = node, fresh, tell
        self._asked: set[str] = set()

    def __call__(self, backend: str, budget: Budget) -> dict[str, dict[str, Speed]]:
        """The known speeds, with those of a backend, if the budget leaves time for them; else it may ask again."""
        if self._reduces and backend not in self._asked:
            is_fresh = self._fresh and _measured_by(self._node, backend) not in self._asked
            found = speeds_here(self._node, [backend], budget, fresh=is_fresh, tell=self._tell)
            self._asked |= {backend, _measured_by(self._node, backend)} if found else set()
            self.known |= found
        return self.known

    def about(self, cuts: Iterable[Cut], budget: Budget) -> None:
        """Ask for the backends of all cuts with several GMIs, on one device or on several."""
        num_devices, _ = devices_of(self._node)
        for backend in dict.fromkeys(cut.backend for cut in cuts if num_devices * cut.gmis_per_gpu > 1):
            self(backend, budget)


def remembered_speeds(node: Node, backends: Iterable[str]) -> dict[str, dict[str, Speed]]:
    """The speeds of these backends in the cache."""
    known = {}
    for backend in backends:
        with suppress(UsageError):
            known[backend] = load_json(SpeedFile, _path(node, backend), "speeds").speeds
    return known


def known_communication(
    task: TaskSpec, learner: LearnerConfig, node: Node, template: Template, backend: str
) -> Communication | None:
    """The communication of a template at speeds of this backend that were measured before.

    None if there are none, and on cores, where the usual reduction is the fastest. For `auto` the speeds of MPS or of
    plain sharing are taken.
    """
    tried = (MPS.name, PROCESS.name) if backend == AUTO.name else (backend,)
    known = remembered_speeds(node, tried) if node.num_gpus else {}
    speeds = next((known[name] for name in tried if name in known), None)
    return None if speeds is None else template.communication(task, learner, node, backend, {backend: speeds})


def remember(node: Node, backend: str, speeds: Speeds) -> None:
    """Store the speeds of a node for `remembered_speeds`. Raises OSError if the file cannot be written."""
    path = _path(node, backend)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, SpeedFile(speeds=dict(speeds)).model_dump_json())


def measured_speeds(node: Node, backend: str = PROCESS.name) -> dict[str, Speed]:
    """Measure the speeds of the ways between two GMIs: on two devices of the node, or on its only GPU.

    Raises:
        GmiError: If they cannot be measured, e.g. on one core, or without MIG instances.
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
    """The speeds for which the alpha-beta model takes as long as was measured for both `NUMELS`.

    Args:
        times: Measured seconds of both vectors. Each method uses one way that those before it do not.
        mapping: The mapping list of the measured GMIs.
    """
    speeds: dict[str, Speed] = {}
    few, many = (4.0 * numel for numel in NUMELS)
    for method, (few_s, many_s) in times.items():
        legs = [leg for leg in method.legs(mapping) if leg.way not in speeds]
        rounds, share = sum(leg.rounds for leg in legs), sum(leg.share for leg in legs)
        if not share or len({leg.way for leg in legs}) > 1:  # a ring within one device, or a way that was not measured
            continue
        way = legs[0].way
        free = speeds | {way: Speed(round_s=0.0, bytes_per_second=1e30)}
        few_s, many_s = few_s - method.seconds(mapping, few, free), many_s - method.seconds(mapping, many, free)
        second_per_byte = max((many_s - few_s) / (share * (many - few)), 1e-15)
        round_s = max((few_s - share * few * second_per_byte) / rounds, LEAST_ROUND_S)
        speeds[way] = Speed(round_s=round_s, bytes_per_second=1 / second_per_byte)
    return speeds


def _measured_by(node: Node, backend: str) -> str:
    """The backend that is measured for one: all backends cut cores alike."""
    return backend if node.num_gpus else PROCESS.name


def _measured_now(node: Node, backend: str, budget: Budget, tell: Callable[[str], None]) -> dict[str, Speed] | None:
    """The speeds by one backend, none if measuring them fails; None if there is no time."""
    by = f" by {backend}" if node.num_gpus else ""
    try:
        pace = pace_on(node)
        expected_s = pace.start_s + SECONDS * len(_layout(node, backend).groups)
        if budget.left_s < expected_s + pace.first_s:
            tell(f"no time to measure how fast GMIs reduce{by}, {expected_s:.0f} s: usual speeds are taken")
            return None
        tell(f"measuring how fast GMIs reduce{by}, once per machine")
        load = CoreLoad(allowed_cores())
        speeds = measured_speeds(node, backend)
    except GmiError as error:
        tell(f"how fast GMIs reduce{by} cannot be measured, so they use host memory: {str(error).splitlines()[0]}")
        return {}
    if is_disturbed(others := load.others()):
        tell(f"other processes took {others:.0%} of the cores meanwhile: how fast GMIs reduce is not remembered")
        return speeds
    with suppress(OSError):  # without the file, speeds are measured again
        remember(node, backend, speeds)
    return speeds


def _layout(node: Node, backend: str) -> Layout:
    """Two GMIs of one core each, in a group for each method to measure and each vector."""
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
        for method in _methods_to_measure(mapping, kind, node.cpu.architecture, backend)
        for numel in NUMELS
    }
    return Layout(backend=backend, devices=devices, groups=groups)


def _methods_to_measure(mapping: MappingList, kind: Kind, architecture: str, backend: str) -> list[ReductionMethod]:
    """The legal methods that move bytes by a way that those before them do not use."""
    chosen: list[ReductionMethod] = []
    ways: set[str] = set()
    for method in METHODS:
        takes = {leg.way for leg in method.legs(mapping) if leg.share}
        is_legal = method.is_for(mapping, kind, architecture) and not (
            method.maps_memory and not BACKENDS.find(backend).maps_memory
        )
        if is_legal and takes - ways:
            chosen.append(method)
            ways |= takes
    return chosen


def _group(method: ReductionMethod, numel: int) -> str:
    return f"{method.name}-{numel}"


def _run(layout: Layout, params: Mapping[str, object]) -> dict[str, float]:
    """The seconds of each group, as rank 0 measured them."""
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
