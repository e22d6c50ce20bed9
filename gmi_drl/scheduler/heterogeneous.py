"""Unlike GPUs cut each in its own way, so that all end an iteration at about the same time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gmi_drl.config.learners import LearnerConfig
from gmi_drl.hardware.node import Node
from gmi_drl.scheduler.candidates import unfit
from gmi_drl.scheduler.gpu_models import gpus_of, points_of, unlike_models
from gmi_drl.scheduler.memory import fits_host, host_bytes_of
from gmi_drl.scheduler.objective import Objective, worth
from gmi_drl.scheduler.profile import Profile, ProfilePoint
from gmi_drl.scheduler.search import Candidate, Grid
from gmi_drl.templates import Template, environments_of, mapping_of
from gmi_drl.templates.cost import Communication
from gmi_drl.templates.paper_model import throughput
from gmi_drl.units import human_count

PAYS = 1.01
"""Times as good as cutting all alike, which is simpler."""

COMMUNICATED = 3
"""Choices of which the communication is reckoned: with thousands of GPUs that takes longer than all the rest."""

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
    """The best of cutting each model in its own way, by each backend (capped and not), by points measured of each.

    A synchronous iteration lasts as long as on the slowest GPU. So for every time that a point's iteration takes, each
    model takes its point with the most environments within that time; nothing is read between points. Where nothing
    waits for another, as in serving, each model takes its fastest.

    Args:
        learner: How it trains.
        node: Of several models of GPU; of one there is nothing to choose.
        profile: With points that name their model.
        grid: Which cuts may be taken.
        template: What a GMI does.
        communications: What crosses the borders of GMIs, by the backend that cuts them.
        objective: What to make the most of.
    """
    if not unlike_models(node):
        return []
    known = _known(node, profile, grid)
    promise = _Promise(node, learner, profile, communications, waits=template.purpose == "training")
    found = []
    for way in dict.fromkeys(cut.way for cut in grid):
        cut_by = {model: [one for one in points if one.cut.way == way] for model, points in known.items()}
        if all(cut_by.values()):
            every = _in_step(cut_by, learner.horizon) if promise.waits else [_fastest(cut_by)]
            several = [one for one in map(promise.of, every) if fits_host(node, host_bytes_of(one, node))]
            first = sorted(several, key=lambda one: -worth(one, objective))[:COMMUNICATED]
            found += sorted(map(promise.with_communication, first), key=lambda one: -worth(one, objective))[:1]
    return found


def with_uneven(uneven: Sequence[Candidate], alike: Sequence[Candidate], objective: Objective) -> list[Candidate]:
    """All candidates, of the uneven ones those that pay beside the best that its backend does by cutting all alike."""
    most: dict[str, float] = {}
    for one in alike:
        most[one.cut.way] = max(worth(one, objective), most.get(one.cut.way, 0.0))
    return [*alike, *(one for one in uneven if worth(one, objective) > PAYS * most.get(one.cut.way, 0.0))]


def about_unlike(best: Candidate, known: Sequence[Candidate], node: Node, template: Template) -> list[str]:
    """What becomes of a node's unlike GPUs, in a sentence; nothing where they are alike."""
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
    """The points of each model that may be taken and that fit its GPUs."""
    allowed, known = set(grid), {}
    for model in node.used_counts:
        alike = gpus_of(node, model)
        points = [one for one in points_of(profile, model) if one.cut in allowed and one.steps_per_second]
        known[model] = [one for one in points if unfit(one, alike) is None]
    return known


def _in_step(known: Mapping[str, list[ProfilePoint]], horizon: int) -> Iterator[Picks]:
    """For each time of an iteration what every model can do within it, each choice once."""
    seen = set()
    for limit_s in sorted({_iteration_s(point, horizon) for points in known.values() for point in points}):
        within = {
            model: [point for point in points if _iteration_s(point, horizon) <= limit_s]
            for model, points in known.items()
        }
        if all(within.values()):
            picks = {model: max(points, key=_worlds_first) for model, points in within.items()}
            cuts = tuple(point.cut for point in picks.values())
            if cuts not in seen:
                seen.add(cuts)
                yield picks


def _worlds_first(point: ProfilePoint) -> tuple[int, float]:
    """Most environments on a GPU; of as many the fastest."""
    return point.cut.uncut.num_env, point.gmis_per_gpu * point.steps_per_second


def _fastest(known: Mapping[str, list[ProfilePoint]]) -> Picks:
    return {
        model: max(points, key=lambda one: one.gmis_per_gpu * one.steps_per_second) for model, points in known.items()
    }


def _iteration_s(point: ProfilePoint, horizon: int) -> float:
    return point.num_env * horizon / point.steps_per_second


@dataclass(frozen=True)
class _Promise:
    """What a choice is expected to do on a node. Where its GMIs wait for each other it `waits` for the slowest."""

    node: Node
    learner: LearnerConfig
    profile: Profile
    communications: Callable[[str], Communication]
    waits: bool

    def of(self, picks: Picks) -> Candidate:
        """As if communication took no time."""
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
        """Less what GMIs of the slowest GPU waited for each other when they were measured."""
        if not self.waits:
            return candidate
        samples = environments_of(candidate.cut, self.node) * self.learner.horizon
        everyone, together = mapping_of(candidate.cut, self.node), [range(candidate.point.gmis_per_gpu)]
        communication = self.communications(candidate.cut.backend)
        waits_s = communication.seconds(everyone) - communication.seconds(together)
        iteration_s = samples / candidate.projected
        return replace(candidate, expected=throughput(1, samples, iteration_s, waits_s))
