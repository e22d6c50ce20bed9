"""Cuts each GPU model of a mixed node in its own way, so that all end an iteration at about the same time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gmi_drl.config.learners import LearnerConfig
from gmi_drl.hardware.node import Node
from gmi_drl.scheduler.candidate import Candidate
from gmi_drl.scheduler.candidates import unfit
from gmi_drl.scheduler.exploration import Grid
from gmi_drl.scheduler.gpu_models import gpus_of, points_of, unlike_models
from gmi_drl.scheduler.memory import fits_host, host_bytes_of
from gmi_drl.scheduler.objective import Objective, worth
from gmi_drl.scheduler.profile import Profile, ProfilePoint
from gmi_drl.templates import Template, environments_of, mapping_of
from gmi_drl.templates.cost import Communication
from gmi_drl.templates.paper_model import throughput
from gmi_drl.units import human_count

PAYS = 1.01
"""Times that it must be as good as cutting all GPUs alike, which is simpler."""

COMMUNICATED = 3
"""Choices whose communication is computed: with thousands of GPUs that takes longer than all the rest."""

Picks = Mapping[str, ProfilePoint]
"""A point for each model."""


def uneven_candidates(
    learner: LearnerConfig,
    node: Node,
    profile: Profile,
    grid: Grid,
    template: Template,
    communications: Callable[[str], Communication],
    objective: Objective,
) -> list[Candidate]:
    """The best candidate of each backend, capped and not, that cuts each GPU model in its own way.

    A synchronous iteration takes as long as on the slowest GPU. So for the iteration time of every point, each model
    takes its point with the most environments within that time; nothing is interpolated. In serving nothing waits, and
    each model takes its fastest point.

    Args:
        learner: The learner.
        node: A machine with several GPU models; with one model the result is empty.
        profile: Points that name their model.
        grid: The cuts that may be chosen.
        template: The template, which says what a GMI does.
        communications: What crosses the borders of GMIs, by backend.
        objective: What to maximise.
    """
    if not unlike_models(node):
        return []
    known = _known(node, profile, grid)
    prediction = _Prediction(node, learner, profile, communications, waits=template.purpose == "training")
    found = []
    for way in dict.fromkeys(cut.way for cut in grid):
        cut_by = {model: [one for one in points if one.cut.way == way] for model, points in known.items()}
        if all(cut_by.values()):
            every = _in_step(cut_by, learner.horizon) if prediction.waits else [_fastest(cut_by)]
            fitting = [one for one in map(prediction.alone, every) if fits_host(node, host_bytes_of(one, node))]
            first = sorted(fitting, key=lambda one: -worth(one, objective))[:COMMUNICATED]
            found += sorted(map(prediction.with_communication, first), key=lambda one: -worth(one, objective))[:1]
    return found


def with_uneven(uneven: Sequence[Candidate], alike: Sequence[Candidate], objective: Objective) -> list[Candidate]:
    """The even candidates, and the uneven ones that beat the best even one of the same backend by `PAYS`."""
    most: dict[str, float] = {}
    for one in alike:
        most[one.cut.way] = max(worth(one, objective), most.get(one.cut.way, 0.0))
    return [*alike, *(one for one in uneven if worth(one, objective) > PAYS * most.get(one.cut.way, 0.0))]


def about_unlike(best: Candidate, known: Sequence[Candidate], node: Node, template: Template) -> list[str]:
    """A sentence that says how the unlike GPUs of a node are cut; empty if they are alike."""
    models = unlike_models(node)
    if not models:
        return []
    unlike = f"its GPUs are unlike ({', '.join(models)})"
    if not best.by_model:
        return [f"{unlike} and cut alike: all run as the slowest of them does"]
    if template.purpose == "serving":
        return [f"{unlike}, and each model takes its fastest cut, as none waits for another"]
    how = "to end an iteration at about the same time"
    alike = max((one for one in known if not one.by_model), key=lambda one: one.steps_per_second, default=None)
    if alike is None:
        return [f"{unlike}, and each model is cut in its own way, {how}: no cut was measured on each of them"]
    gain = best.steps_per_second / alike.steps_per_second if alike.steps_per_second else float("inf")
    return [
        f"{unlike}, and each model is cut in its own way, {how}: {gain:.2f}x the best of cutting all alike "
        f"({alike.cut.described}, {human_count(alike.steps_per_second)} steps/s), where all run as the slowest does"
    ]


def _known(node: Node, profile: Profile, grid: Grid) -> dict[str, list[ProfilePoint]]:
    """The points of each model that the grid allows and that fit its GPUs."""
    allowed, known = set(grid), {}
    for model in node.used_counts:
        alike = gpus_of(node, model)
        points = [one for one in points_of(profile, model) if one.cut in allowed and one.steps_per_second]
        known[model] = [one for one in points if unfit(one, alike) is None]
    return known


def _in_step(known: Mapping[str, list[ProfilePoint]], horizon: int) -> Iterator[Picks]:
    """For each iteration time the point with the most environments of every model within it, without duplicates."""
    seen = set()
    for limit_s in sorted({_iteration_s(point, horizon) for points in known.values() for point in points}):
        within = {
            model: [point for point in points if _iteration_s(point, horizon) <= limit_s]
            for model, points in known.items()
        }
        if all(within.values()):
            picks = {model: max(points, key=_environments_first) for model, points in within.items()}
            cuts = tuple(point.cut for point in picks.values())
            if cuts not in seen:
                seen.add(cuts)
                yield picks


def _environments_first(point: ProfilePoint) -> tuple[int, float]:
    """Order by the environments on a GPU, then by speed."""
    return point.cut.uncut.num_env, point.gmis_per_gpu * point.steps_per_second


def _fastest(known: Mapping[str, list[ProfilePoint]]) -> Picks:
    return {
        model: max(points, key=lambda one: one.gmis_per_gpu * one.steps_per_second) for model, points in known.items()
    }


def _iteration_s(point: ProfilePoint, horizon: int) -> float:
    return point.num_env * horizon / point.steps_per_second


@dataclass(frozen=True)
class _Prediction:
    """Predicts a choice of points on a node. If its GMIs `wait` for each other, the slowest sets the pace."""

    node: Node
    learner: LearnerConfig
    profile: Profile
    communications: Callable[[str], Communication]
    waits: bool

    def alone(self, picks: Picks) -> Candidate:
        """The candidate, as if communication took no time."""
        slowest = max(picks.values(), key=lambda one: _iteration_s(one, self.learner.horizon))
        candidate = Candidate(slowest, 0.0, 0.0, by_model=tuple(picks.items()))
        samples = environments_of(candidate.cut, self.node) * self.learner.horizon
        if self.waits:
            speed = samples / _iteration_s(slowest, self.learner.horizon)
        else:
            counts = self.node.used_counts
            speed = sum(counts[model] * one.gmis_per_gpu * one.steps_per_second for model, one in picks.items())
        noise = self.profile.noise if self.waits else None
        efficiency = noise.efficiency(samples) if noise else None
        return replace(candidate, projected=speed, expected=speed, efficiency=efficiency)

    def with_communication(self, candidate: Candidate) -> Candidate:
        """The candidate with communication, less the waits that the measured GMIs of the slowest GPU already had."""
        if not self.waits:
            return candidate
        samples = environments_of(candidate.cut, self.node) * self.learner.horizon
        everyone, together = mapping_of(candidate.cut, self.node), [range(candidate.point.gmis_per_gpu)]
        communication = self.communications(candidate.cut.backend)
        waits_s = communication.seconds(everyone) - communication.seconds(together)
        iteration_s = samples / candidate.projected
        return replace(candidate, expected=throughput(1, samples, iteration_s, waits_s))
