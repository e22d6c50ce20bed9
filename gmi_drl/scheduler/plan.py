"""Makes the layout of a workload on a node: cut evenly, or chosen from what was measured."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from gmi_drl.config.learners import LearnerConfig
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.signature import signature_of
from gmi_drl.layout.backends import PROCESS
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import Layout, Projection
from gmi_drl.scheduler.agent_trainer_split import Division
from gmi_drl.scheduler.candidate import Candidate
from gmi_drl.scheduler.candidates import (
    Basis,
    Confirmed,
    candidates_of,
    predictor,
    samples_per_update,
    uncuttable,
    with_confirmed,
)
from gmi_drl.scheduler.exploration import Grid
from gmi_drl.scheduler.gpu_choice import why_these_gpus
from gmi_drl.scheduler.gpu_models import for_node, no_common_point
from gmi_drl.scheduler.heterogeneous import about_unlike, uneven_candidates, with_uneven
from gmi_drl.scheduler.memory import MemoryModel, memory_models
from gmi_drl.scheduler.objective import Objective, ranked
from gmi_drl.scheduler.profile import Profile, ProfilePoint, require_same_task
from gmi_drl.scheduler.reasons import Learns, reasons_for
from gmi_drl.templates import TCG_EX, Template, devices_of, environments_of
from gmi_drl.templates.cost import Communication
from gmi_drl.units import counted
from gmi_drl.workload import TaskSpec

SHOWN = 4
"""Most points whose reasons an error lists."""


@dataclass(frozen=True)
class Plan:
    """A layout, and what it was chosen from.

    Args:
        layout: The choice, with its reasons.
        candidates: Best first; empty if nothing was measured.
        memory: Memory models of a GMI cut by the chosen backend, by GMIs per device.
        infeasible: Points that did not run or do not fit, with the reason.
        horizon: Steps of each environment per update.
        learner: The kind of learner; None if nothing is learnt or nothing was measured.
        basis: What it was chosen by; None if nothing was measured.
        divisions: In place of candidates if agents and trainers are on different GMIs; the choice first.
    """

    layout: Layout
    candidates: tuple[Candidate, ...] = ()
    memory: Mapping[int, MemoryModel] = field(default_factory=dict)
    infeasible: tuple[ProfilePoint, ...] = ()
    horizon: int = 1
    learner: str | None = None
    basis: Basis | None = None
    divisions: tuple[Division, ...] = ()

    @property
    def best_solo(self) -> Candidate | None:
        """The best candidate with one GMI per device; None if there is none."""
        return next((candidate for candidate in self.candidates if candidate.is_solo), None)

    @property
    def knows_what_pays(self) -> bool:
        """Whether the efficiency of a candidate's updates is known."""
        return any(candidate.efficiency is not None for candidate in self.candidates)

    def samples_per_update(self, candidate: Candidate) -> int:
        """Environments of all GMIs times the horizon: what one update learns from."""
        assert self.basis is not None  # as there are candidates
        return environments_of(candidate.cut, self.basis.node) * self.horizon


def plan(
    task: TaskSpec,
    node: Node,
    *,
    num_env: int,
    gmis_per_gpu: int | None = None,
    template: Template = TCG_EX,
    backend: str = PROCESS.name,
    share_cores: bool = False,
    remarks: Sequence[str] = (),
    communication: Communication | None = None,
) -> Layout:
    """Cut a node evenly. Nothing is measured, and the layout says so.

    Args:
        task: The task to run.
        node: The machine.
        num_env: Environments of each GMI.
        gmis_per_gpu: GMIs of each device; None for the template's usual number.
        template: The template, which says what a GMI does.
        backend: The backend that cuts the devices.
        share_cores: Whether GMIs may share cores if there are not enough.
        remarks: Further reasons.
        communication: Chooses the reduction; None if no speeds are known.

    Raises:
        NoFeasiblePlanError: if the node cannot hold that many GMIs.
    """
    why = "no profile was given and nothing was measured: the devices are cut evenly"
    cut = Cut(gmis_per_gpu or template.usual_gmis_per_gpu(node), num_env, backend, share_cores)
    layout = template.lay_out(task, node, cut, why=[why, *remarks], communication=communication)
    return _for_node(layout, node)


def plan_measured(
    task: TaskSpec,
    learner: LearnerConfig,
    node: Node,
    profile: Profile,
    grid: Grid,
    *,
    template: Template = TCG_EX,
    confirmed: Confirmed | None = None,
    from_run: Collection[Cut] = (),
    unmeasured: Sequence[Cut] = (),
    remarks: Sequence[str] = (),
    objective: Objective = "steps",
) -> Plan:
    """Choose the best of the measured points.

    Every point of the grid that runs and fits the node is a candidate.

    Args:
        task: The task to run.
        learner: The learner. If the profile was measured with another one, the reasons say so.
        node: The machine.
        profile: The measured points.
        grid: The cuts that may be chosen.
        template: The template, which says what a GMI does.
        confirmed: Speeds of layouts that ran. A confirmed candidate ranks before predicted ones.
        from_run: Confirmed cuts whose points were measured in that run only.
        unmeasured: Points for which there was no time; the reasons list them.
        remarks: Further reasons.
        objective: What to maximise.

    Raises:
        UsageError: if the profile is of another task.
        NoFeasiblePlanError: if nothing in it runs or fits the node.
    """
    require_same_task(profile, task)
    measured, (profile, about_models) = profile, for_node(profile, node)
    # All GMIs of a GPU were measured together, so only communication between GPUs is added.
    communications = partial(template.communication, task, learner, node, speeds=profile.speeds)
    candidates, infeasible = candidates_of(task, learner, node, profile, grid, template, objective)
    uneven = uneven_candidates(learner, node, measured, grid, template, communications, objective)
    if not candidates and not uneven:
        every = measured.points
        refused = infeasible or uncuttable(every, node, grid)
        if every and not profile.points and not refused:
            raise NoFeasiblePlanError(f"no point of the profile can be used: {no_common_point(node, every)}")
        raise NoFeasiblePlanError(_nothing_left(profile, node, refused, unmeasured))
    predict = predictor(task, learner, node, template, profile.speeds, profile.noise)
    alike = with_confirmed(candidates, confirmed or {}, from_run, profile, predict)
    known = ranked(with_uneven(uneven, alike, objective), objective)
    best = next(candidate for candidate in known if candidate.by_model or candidate.point.cut in grid)
    projection = Projection(
        measured=True, steps_per_second=best.steps_per_second, memory_bytes=best.memory_bytes or None
    )
    num_devices, _ = devices_of(node)
    learns = None
    if template.purpose == "training":
        learns = Learns(learner.kind, lambda cut: samples_per_update(cut, node, learner), profile.noise, objective)
    communication = communications(best.cut.backend)
    doubt = communication.doubt if num_devices > 1 else None
    why = [
        *reasons_for(best, known, profile, num_devices, learns, unmeasured, doubt),
        *about_models,
        *about_unlike(best, known, node, template),
        *remarks,
    ]
    layout = template.lay_out(task, node, best.cut, projection, why, communication)
    return Plan(
        _for_node(layout, node),
        (best, *(candidate for candidate in known if candidate is not best)),
        memory_models(point for point in profile.points if point.backend == best.point.backend),
        tuple(infeasible),
        learner.horizon,
        learns.kind if learns else None,
        Basis(task, learner, node, profile, measured, template, objective),
    )


def _for_node(layout: Layout, node: Node) -> Layout:
    """The layout with the signature of its node, and with the reasons for its choice of GPUs."""
    reasons = (*layout.reasons, *why_these_gpus(layout, node))
    return layout.model_copy(update={"made_for": signature_of(node), "reasons": reasons})


def _nothing_left(profile: Profile, node: Node, infeasible: Sequence[ProfilePoint], unmeasured: Sequence[Cut]) -> str:
    """Why no point of a profile can be used."""
    known = (
        f"{counted(len(profile.points), 'point')}, {sum(point.runnable for point in profile.points)} of them runnable"
    )
    limits = f"at most {counted(devices_of(node)[1], 'GMI')} per device"
    reasons = [f"{point.cut.described}: {point.reason}" for point in infeasible[:SHOWN]]
    reasons += [f"and {len(infeasible) - SHOWN} more"] if len(infeasible) > SHOWN else []
    if unmeasured:
        reasons.append(f"{counted(len(unmeasured), 'point')} not measured for want of time: give more with --budget")
    return "\n  ".join([f"no plan: {profile.node} has {known}, none that fits {node.name} ({limits})", *reasons])
