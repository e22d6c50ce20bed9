"""The points of a profile as candidates for a plan: what each is expected to do with all GMIs of a node."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from gmi_drl.config.learners import LearnerConfig
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import SpeedsByBackend
from gmi_drl.layout.cut import AnyCut, Cut
from gmi_drl.layout.mapping import MappingList
from gmi_drl.scheduler.candidate import Candidate
from gmi_drl.scheduler.exploration import Grid, Worth
from gmi_drl.scheduler.memory import shortage
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.scheduler.objective import Objective, ranked
from gmi_drl.scheduler.profile import Profile, ProfilePoint
from gmi_drl.templates import TCG_EX, Template, backend_refusal, devices_of, environments_of, mapping_of
from gmi_drl.templates.cost import Communication
from gmi_drl.templates.paper_model import throughput
from gmi_drl.workload import TaskSpec

Confirmed = Mapping[Cut, float]
"""Steps per second of all GMIs of a cut that were run together."""


@dataclass(frozen=True)
class Basis:
    """What a plan was chosen by: the workload, the node, the measurements, and the objective.

    `profile` has one point of each cut, which holds for all GPUs. `measured` has the points of each model of GPU.
    """

    task: TaskSpec
    learner: LearnerConfig
    node: Node
    profile: Profile
    measured: Profile
    template: Template
    objective: Objective = "steps"

    def communication(self, backend: str) -> Communication:
        """What crosses the borders of GMIs in an iteration, if this backend cuts them."""
        return self.template.communication(self.task, self.learner, self.node, backend, self.profile.speeds)


def candidates_of(
    task: TaskSpec,
    learner: LearnerConfig,
    node: Node,
    profile: Profile,
    grid: Grid,
    template: Template = TCG_EX,
    objective: Objective = "steps",
) -> tuple[list[Candidate], list[ProfilePoint]]:
    """The points of a profile that lie in a grid: those that run on this node, best first, and those that cannot."""
    predict = predictor(task, learner, node, template, profile.speeds, profile.noise)
    candidates, infeasible = [], []
    for cut in grid:
        point = profile.point(cut)
        if point is None:
            continue
        if why := unfit(point, node):
            infeasible.append(point.model_copy(update={"runnable": False, "reason": why}))
        else:
            candidates.append(predict(point))
    return ranked(candidates, objective), infeasible


def samples_per_update(cut: AnyCut, node: Node, learner: LearnerConfig) -> int:
    """Environments of all GMIs times the horizon: what one update learns from."""
    return environments_of(cut, node) * learner.horizon


def worth_of(node: Node, learner: LearnerConfig, noise: NoiseScale | None) -> Worth:
    """What a cut is worth on a node: steps per second of all GMIs, with the `noise` scale of a training useful ones."""
    num_devices, _ = devices_of(node)

    def worth(cut: Cut, steps_per_second: float) -> float:
        efficiency = noise.efficiency(samples_per_update(cut, node, learner)) if noise else 1.0
        return num_devices * cut.gmis_per_gpu * steps_per_second * efficiency

    return worth


def predictor(
    task: TaskSpec,
    learner: LearnerConfig,
    node: Node,
    template: Template = TCG_EX,
    speeds: SpeedsByBackend | None = None,
    noise: NoiseScale | None = None,
) -> Callable[[ProfilePoint], Candidate]:
    """A function that predicts all GMIs of this node from the point of one, by `estimate` and by equations 2 and 3.

    With the `noise` scale of a training the candidate has the efficiency of its updates, too.
    """
    num_devices, _ = devices_of(node)

    @cache
    def communication_s(gmis_per_gpu: int, backend: str) -> float:
        communication = template.communication(task, learner, node, backend, speeds)
        return unmeasured_communication(communication, node, mapping_of(Cut(gmis_per_gpu, 1), node))

    def predict(point: ProfilePoint) -> Candidate:
        num_gmis, steps = num_devices * point.gmis_per_gpu, point.num_env * learner.horizon
        projected = expected = num_gmis * point.steps_per_second
        if projected:
            iteration_s = steps / point.steps_per_second
            expected = throughput(num_gmis, steps, iteration_s, communication_s(point.gmis_per_gpu, point.backend))
        efficiency = None
        if noise is not None and template.purpose == "training":
            efficiency = noise.efficiency(samples_per_update(point.cut, node, learner))
        return Candidate(point, projected, expected, efficiency=efficiency)

    return predict


def unmeasured_communication(communication: Communication, node: Node, everyone: MappingList) -> float:
    """COM / BW of an iteration in seconds, less what GMIs that were measured together waited for each other then."""
    ran_together = everyone[:1] if node.num_gpus else [range(1)]
    return communication.seconds(everyone) - communication.seconds(ran_together)


def unfit(point: ProfilePoint, node: Node) -> str | None:
    """Why a point cannot run on this node, or was measured beside other programs; None if it can be chosen."""
    if not point.runnable:
        return point.reason or "did not run when it was measured"
    if point.disturbance:
        return point.disturbance
    num_gmis = devices_of(node)[0] * point.gmis_per_gpu
    return backend_refusal(node, point.cut, point.memory_bytes) or shortage(
        node, num_gmis, point.gmis_per_gpu, point.memory_bytes, point.host_bytes
    )


def with_confirmed(
    candidates: Sequence[Candidate],
    confirmed: Confirmed,
    from_run: Collection[Cut],
    profile: Profile,
    predict: Callable[[ProfilePoint], Candidate],
) -> list[Candidate]:
    """The candidates with the speeds of GMIs that ran together. Cuts that ran beside them join, also from no grid."""
    in_grid = {candidate.point.cut: candidate for candidate in candidates}
    beside = {cut: predict(point) for cut in confirmed if (point := profile.point(cut)) is not None}
    return [
        replace(candidate, confirmed=confirmed.get(cut), from_run=cut in from_run)
        for cut, candidate in (beside | in_grid).items()
    ]


def uncuttable(points: Sequence[ProfilePoint], node: Node, grid: Grid) -> list[ProfilePoint]:
    """Points of any model of GPU whose cut the GPUs of a node cannot have, each with the reason."""
    cuts = set(grid)
    wanted = {point.cut: point for point in points if point.cut in cuts}
    refused = {point: backend_refusal(node, cut, point.memory_bytes) for cut, point in wanted.items()}
    return [point.model_copy(update={"reason": why}) for point, why in refused.items() if why]
