"""Compares described machines for one workload, by a profile of it (`gmi-drl what-if`)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from gmi_drl.config.learners import LearnerConfig
from gmi_drl.hardware.node import Node
from gmi_drl.scheduler.candidate import Candidate
from gmi_drl.scheduler.candidates import candidates_of
from gmi_drl.scheduler.gpu_models import for_node, no_common_point
from gmi_drl.scheduler.grid import profile_grid, why_no_grid
from gmi_drl.scheduler.heterogeneous import uneven_candidates, with_uneven
from gmi_drl.scheduler.objective import ranked
from gmi_drl.scheduler.price import Prices, cost_per_billion_steps, price_per_hour
from gmi_drl.scheduler.profile import Profile, ProfilePoint, require_same_task
from gmi_drl.templates import TCG_EX, Template, backend_refusal
from gmi_drl.workload import TaskSpec

MEASURED = "measured there"


@dataclass(frozen=True)
class Case:
    """A machine whose devices are cut by one backend.

    Args:
        node: The machine.
        backend: The backend.
        best: The best candidate; None if none fits.
        solo: The best candidate with one GMI per device, by any backend; None if there is none.
        cost: The price of a billion steps; None without prices, or if nothing fits.
        known_by: Whether it was measured or predicted, in a few words; if `best` is None, why nothing fits.
    """

    node: Node
    backend: str
    best: Candidate | None
    solo: Candidate | None
    cost: float | None
    known_by: str

    @property
    def gain(self) -> float | None:
        """Speed over that of one GMI per device; None if that is not known."""
        if self.best is None or self.solo is None or not self.solo.expected:
            return None
        return self.best.expected / self.solo.expected


def compare(
    task: TaskSpec,
    learner: LearnerConfig,
    nodes: Sequence[Node],
    profile: Profile,
    *,
    prices: Prices | None = None,
    keep_batch: int | None = None,
    template: Template = TCG_EX,
) -> list[Case]:
    """A case for every machine and every backend of the profile.

    Args:
        task: The task to run.
        learner: The learner.
        nodes: The machines.
        profile: The measured points.
        prices: Prices of their GPUs.
        keep_batch: Samples per update that every layout must have.
        template: The template, which says what a GMI does.

    Raises:
        UsageError: if the profile is of another task, or a GPU has no price although others have.
    """
    require_same_task(profile, task)
    return [case for node in nodes for case in _of_node(task, learner, node, profile, prices, keep_batch, template)]


def _of_node(
    task: TaskSpec,
    learner: LearnerConfig,
    node: Node,
    profile: Profile,
    prices: Prices | None,
    keep_batch: int | None,
    template: Template,
) -> Iterator[Case]:
    here, about_models = for_node(profile, node)
    grid = profile_grid(here, node, learner.horizon, keep_batch)
    alike, infeasible = candidates_of(task, learner, node, here, grid, template)
    every = profile_grid(profile, node, learner.horizon, keep_batch)
    communications = partial(template.communication, task, learner, node, speeds=profile.speeds)
    uneven = uneven_candidates(learner, node, profile, every, template, communications, "steps")
    candidates = ranked(with_uneven(uneven, alike, "steps"), "steps")
    hourly = None if prices is None else price_per_hour(node, prices)
    solo = next((candidate for candidate in candidates if candidate.is_solo), None)
    for backend in dict.fromkeys(point.backend for point in profile.points):
        none = why_no_grid(profile, node, learner.horizon, keep_batch, backend)
        best = next((candidate for candidate in candidates if candidate.point.backend == backend), None)
        if best is None:
            yield Case(node, backend, None, solo, None, _why_not(backend, node, profile, infeasible, none))
            continue
        cost = None if hourly is None else cost_per_billion_steps(hourly, best.expected)
        yield Case(node, backend, best, solo, cost, _known_by(node, profile, about_models))


def _why_not(backend: str, node: Node, profile: Profile, infeasible: Sequence[ProfilePoint], none: str | None) -> str:
    """Why no point of a backend can run on a node. `none` says why the grid of that backend is empty, if it is."""
    here = [point.reason for point in infeasible if point.backend == backend]
    measured = [point for point in profile.points if point.backend == backend]
    there = [backend_refusal(node, point.cut, point.memory_bytes) for point in measured]
    refused = there[0] if all(there) else None
    return refused or next(iter(here), None) or none or no_common_point(node, measured)


def _known_by(node: Node, profile: Profile, about_models: Sequence[str]) -> str:
    """Whether a node was measured itself, or is predicted by points of its own GPU models or of others."""
    if profile.node == node.name:
        return MEASURED
    if not any(point.model for point in profile.points):
        return "projected"
    return "projected from other GPUs" if any("are used" in line for line in about_models) else "points of its GPUs"
