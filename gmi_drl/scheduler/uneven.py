"""Unlike GPUs cut each in its own way, so that all end an iteration at about the same time."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from gmi_drl.cut import Cuts
from gmi_drl.hardware import Node
from gmi_drl.learners import LearnerConfig
from gmi_drl.profile import Profile, ProfilePoint
from gmi_drl.scheduler.memory import shortage
from gmi_drl.scheduler.models import points_of, unlike_models
from gmi_drl.scheduler.objective import Objective, worth
from gmi_drl.scheduler.search import Candidate, Grid
from gmi_drl.templates import Template
from gmi_drl.templates.cost import Communication
from gmi_drl.units import human_count

PAYS = 1.01
"""Times as good as cutting all alike, which is simpler."""

COMMUNICATED = 3
"""Choices of which the communication is reckoned: with thousands of GPUs that takes longer than all the rest."""

Picks = Mapping[str, ProfilePoint]
"""A point for each model."""


def best_uneven(
    learner: LearnerConfig,
    node: Node,
    profile: Profile,
    grid: Grid,
    template: Template,
    communication: Communication,
    objective: Objective,
    unfit: Callable[[ProfilePoint, Node], str | None],
) -> Candidate | None:
    """The best of cutting each model in its own way, by points that were measured of each.

    A synchronous iteration lasts as long as on the slowest GPU. So for every time that a point's iteration takes, each
    model takes its point with the most samples within that time; nothing is read between points. Where nothing waits
    for another, as in serving, each model takes its fastest.

    Args:
        learner: How it trains.
        node: Of several models of GPU.
        profile: With points that name their model.
        grid: Which cuts may be taken.
        template: What a GMI does.
        communication: Of the template.
        objective: What to make the most of.
        unfit: Why a point cannot run on a node; None if it can.

    Returns:
        None where one of them has no point that runs.
    """
    counts = Counter[str]()
    for part in node.used_models:
        counts[part.model] += part.count
    known = _known(node, profile, grid, unfit)
    found: list[Candidate] = []
    for backend in dict.fromkeys(cut.backend for cut in grid):
        of_backend = {
            model: [one for one in points if one.backend == backend and one.steps_per_second]
            for model, points in known.items()
        }
        if not all(of_backend.values()):
            continue
        waits = template.purpose == "training"
        every = list(_in_step(of_backend, learner.horizon)) if waits else [_fastest(of_backend)]
        fitting = [picks for picks in every if _host_fits(picks, counts, node)]
        several = [_candidate(picks, counts, node, learner, profile, waits, None) for picks in fitting]
        first = sorted(zip(several, fitting, strict=True), key=lambda pair: -worth(pair[0], objective))[:COMMUNICATED]
        found += [_candidate(picks, counts, node, learner, profile, waits, communication) for _, picks in first]
    return max(found, key=lambda one: worth(one, objective), default=None)


def with_uneven(uneven: Candidate | None, alike: Sequence[Candidate], objective: Objective) -> list[Candidate]:
    """The candidates, and the uneven one where it pays beside the best of those that are cut alike."""
    most = max((worth(one, objective) for one in alike), default=0.0)
    if uneven is None or worth(uneven, objective) <= PAYS * most:
        return list(alike)
    return [*alike, uneven]


def about_unlike(best: Candidate, known: Sequence[Candidate], node: Node, template: Template) -> list[str]:
    """What becomes of a node's unlike GPUs, in a sentence; nothing where they are alike."""
    models = unlike_models(node)
    if not models:
        return []
    unlike = f"its GPUs are unlike ({', '.join(models)})"
    if best.cuts is None:
        return [f"{unlike} and cut alike: all run as the slowest of them does"]
    how = "to end an iteration at about the same time" if template.purpose == "training" else "at its fastest"
    alike = max((one for one in known if one.cuts is None), key=lambda one: one.steps_per_second, default=None)
    if alike is None:
        return [f"{unlike}, and each model is cut in its own way, {how}: no cut was measured on each of them"]
    gain = best.steps_per_second / alike.steps_per_second if alike.steps_per_second else float("inf")
    return [
        f"{unlike}, and each model is cut in its own way, {how}: {gain:.2f}x the best of cutting all alike "
        f"({alike.cut.described}, {human_count(alike.steps_per_second)} steps/s), where all run as the slowest does"
    ]


def mapping_of(cuts: Cuts, node: Node) -> list[range]:
    """The GMIs of each GPU, their ids in a row."""
    models = node.model_of_each_gpu
    sizes = [cuts.of(models[index]).gmis_per_gpu for index in node.gpu_indices]
    return [range(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]


def samples_of(cuts: Cuts, node: Node, horizon: int) -> int:
    """What an update learns from."""
    return sum(part.count * cuts.of(part.model).uncut.num_env for part in node.used_models) * horizon


def _known(
    node: Node, profile: Profile, grid: Grid, unfit: Callable[[ProfilePoint, Node], str | None]
) -> dict[str, list[ProfilePoint]]:
    """The points of each model that may be taken and that fit its GPUs."""
    allowed, models, known = set(grid), node.model_of_each_gpu, {}
    for model in dict.fromkeys(part.model for part in node.used_models):
        alike = node.only(index for index in node.gpu_indices if models[index] == model)
        points = [one for one in points_of(profile, model) if one.cut in allowed]
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


def _host_fits(picks: Picks, counts: Mapping[str, int], node: Node) -> bool:
    host_bytes = sum(counts[model] * one.gmis_per_gpu * one.host_bytes for model, one in picks.items())
    return shortage(node, 1, 1, 0, host_bytes) is None


def _candidate(
    picks: Picks,
    counts: Mapping[str, int],
    node: Node,
    learner: LearnerConfig,
    profile: Profile,
    waits: bool,
    communication: Communication | None,
) -> Candidate:
    """What a choice promises; without `communication` as if that took no time."""
    cuts = Cuts(tuple((model, point.cut) for model, point in picks.items()))
    slowest = max(picks.values(), key=lambda one: _iteration_s(one, learner.horizon))
    samples = samples_of(cuts, node, learner.horizon)
    if waits:
        iteration_s = _iteration_s(slowest, learner.horizon)
        projected, spent_s = samples / iteration_s, iteration_s
        if communication is not None:
            mapping = mapping_of(cuts, node)
            spent_s += communication.seconds(mapping) - communication.seconds(mapping[:1])
        expected = samples / spent_s
    else:
        rates = (counts[model] * one.gmis_per_gpu * one.steps_per_second for model, one in picks.items())
        projected = expected = sum(rates)
    efficiency = profile.noise.efficiency(samples) if profile.noise and waits else None
    return Candidate(slowest, projected, expected, efficiency=efficiency, cuts=cuts)
