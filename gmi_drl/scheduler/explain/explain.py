"""Fills in every formula of a plan: for the choice, and for the next best candidate."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from gmi_drl.errors import UsageError
from gmi_drl.scheduler.candidate import Candidate
from gmi_drl.scheduler.candidates import Basis
from gmi_drl.scheduler.explain.formulas import (
    Formula,
    communication_of,
    cost_of,
    efficiency_of,
    estimate_of,
    memory_of,
    room_on_gpu,
    room_on_host,
    saturation_of,
    throughput_of,
    uneven_of,
)
from gmi_drl.scheduler.explain.paper_formulas import paper_formulas
from gmi_drl.scheduler.gpu_models import gpus_of, points_of
from gmi_drl.scheduler.memory import memory_models
from gmi_drl.scheduler.objective import KINDS, Objective, worth
from gmi_drl.scheduler.plan import Plan
from gmi_drl.scheduler.profile import ProfilePoint
from gmi_drl.templates import devices_of
from gmi_drl.units import counted, human_count


@dataclass(frozen=True)
class Explained:
    """A candidate with its formulas, in the order in which they are used.

    Args:
        title: The candidate, and whether it was chosen.
        formulas: The formulas with numbers.
        verdict: The conclusion, in a sentence.
    """

    title: str
    formulas: tuple[Formula, ...]
    verdict: str


def explain(plan: Plan, hourly: float | None = None) -> list[Explained]:
    """The choice and the next best, explained.

    Args:
        plan: A plan by measurements.
        hourly: Price of the node's GPUs for an hour; None without prices.

    Raises:
        UsageError: if nothing was measured for it.
    """
    if plan.basis is None:
        raise UsageError("nothing was measured for this plan, so there is no formula to explain")
    best, *others = plan.candidates
    return [
        Explained(
            f"chosen: {_named(best)}",
            (*_formulas(best, plan, plan.basis, hourly), *paper_formulas(best, plan.basis)),
            _verdict_of_choice(best, plan.basis.objective),
        ),
        *(
            Explained(
                f"not chosen: {_named(other)}",
                _formulas(other, plan, plan.basis, hourly),
                _verdict_of_other(other, best, plan.basis.objective),
            )
            for other in others[:1]
        ),
    ]


def _formulas(candidate: Candidate, plan: Plan, basis: Basis, hourly: float | None) -> tuple[Formula, ...]:
    point, (num_devices, _) = candidate.point, devices_of(basis.node)
    cost = [] if hourly is None else [cost_of(candidate, hourly)]
    if candidate.by_model:
        return (
            *chain.from_iterable(_of_model(model, own, basis) for model, own in candidate.by_model),
            *communication_of(candidate.cut, basis),
            uneven_of(candidate, basis),
            *efficiency_of(candidate, basis),
            *cost,
        )
    model = plan.memory.get(point.gmis_per_gpu) if point.backend == plan.layout.backend else None
    return (
        saturation_of(point, basis.profile),
        estimate_of(candidate, num_devices),
        *communication_of(point.cut, basis),
        throughput_of(candidate, basis),
        *efficiency_of(candidate, basis),
        memory_of(point, model),
        *room_on_gpu(point, basis.node),
        *room_on_host(point, basis.node),
        *cost,
    )


def _of_model(model: str, point: ProfilePoint, basis: Basis) -> Iterator[Formula]:
    """The formulas of one GPU model, which is cut in its own way."""
    own = basis.measured.model_copy(update={"points": tuple(points_of(basis.measured, model))})
    sizes = memory_models(one for one in own.points if one.backend == point.backend)
    formulas = (
        saturation_of(point, own),
        memory_of(point, sizes.get(point.gmis_per_gpu)),
        *room_on_gpu(point, gpus_of(basis.node, model)),
    )
    yield from (replace(formula, name=f"{formula.name}, {model}") for formula in formulas)


def _named(candidate: Candidate) -> str:
    point = candidate.point
    if candidate.by_model:
        return candidate.cut.described
    each = f"{counted(point.gmis_per_gpu, 'GMI')} per device, {point.num_env} environments each"
    return f"{each}, by {point.cut.way}"


def _verdict_of_choice(best: Candidate, objective: Objective) -> str:
    speed, kind = human_count(worth(best, objective)), KINDS[objective]
    if best.confirmed is None:
        return f"{speed} {kind} are the most of all candidates by these formulas; it has not been run"
    by_formula = human_count(worth(replace(best, confirmed=None), objective))
    error = "" if best.error is None else f", whose error is {best.error:+.1%}"
    return f"{speed} {kind} when all its GMIs ran together, which goes before {by_formula} by formula{error}"


def _verdict_of_other(other: Candidate, best: Candidate, objective: Objective) -> str:
    speed, kind = human_count(worth(other, objective)), KINDS[objective]
    ran = "has not been run" if other.confirmed is None else "ran together"
    if best.confirmed is not None and other.confirmed is None:
        return f"{speed} {kind} by formula, but it {ran}: what ran goes before what is only expected"
    most = worth(best, objective)
    ratio = worth(other, objective) / most if most else float("nan")
    return f"{speed} {kind}, {ratio:.3f}x the choice; it {ran}"
