"""What if: one workload on machines that are described, by what was measured of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from gmi_drl.config.learners import LearnerConfig
from gmi_drl.hardware.node import Node
from gmi_drl.scheduler.candidates import candidates_of
from gmi_drl.scheduler.gpu_models import for_node, no_common_point
from gmi_drl.scheduler.grid import profile_grid, why_no_grid
from gmi_drl.scheduler.heterogeneous import uneven_candidates, with_uneven
from gmi_drl.scheduler.objective import ranked
from gmi_drl.scheduler.price import Prices, cost_per_billion_steps, price_per_hour
from gmi_drl.scheduler.profile import Profile, ProfilePoint, require_same_task
from gmi_drl.scheduler.search import Candidate
from gmi_drl.templates import TCG_EX, Template, backend_refusal
from gmi_drl.workload import TaskSpec

MEASURED = "measured there"


@dataclass(frozen=True)
class Case:
    """A machine whose devices are cut by one backend.

    Args:
        node: The machine.
        backend: What cuts its devices.
        best: The best candidate; None if none fits.
        solo: The best with one GMI per device, cut by whatever; None if none is known.
        cost: Of a billion steps; None without prices, or where nothing fits.
        known_by: What was measured, and what is projected, in a few words; why nothing fits, where `best` is None.
    """

    node: Node
    backend: str
    best: Candidate | None
    solo: Candidate | None
    cost: float | None
    known_by: str

    @property
    def gain(self) -> float | None:
        """Over one GMI per device; None where nothing is known of it."""
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
    """Every machine by every backend that the profile knows.

    Args:
        task: What is run.
        learner: How it trains.
        nodes: The machines.
        profile: What was measured.
        prices: Of their GPUs.
        keep_batch: Samples per update that every layout must have.
        template: What a GMI does.

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
    """Why nothing that was measured with a backend can be had on a node; `none` says why no point is looked at."""
    here = [point.reason for point in infeasible if point.backend == backend]
    measured = [point for point in profile.points if point.backend == backend]
    there = [backend_refusal(node, point.cut, point.memory_bytes) for point in measured]
    refused = there[0] if all(there) else None
    return refused or next(iter(here), None) or none or no_common_point(node, measured)


def _known_by(node: Node, profile: Profile, about_models: Sequence[str]) -> str:
    """In a few words: measured there, by points of its own models of GPU, or of others."""
    if profile.node == node.name:
        return MEASURED
    if not any(point.model for point in profile.points):
        return "projected"
    return "projected from other GPUs" if any("stand for it" in told for told in about_models) else "points of its GPUs"
