"""What `gmi-drl plan --format json` prints."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gmi_drl.scheduler import Plan
    from gmi_drl.scheduler.agent_trainer_split import Division

COST = "cost_per_billion_steps"


def plan_document(plan: "Plan", hourly: float | None, explain: bool) -> dict[str, object]:
    """A plan with its candidates. `hourly` is the price of the node's GPUs in an hour; `explain` adds the formulas."""
    from dataclasses import asdict

    from gmi_drl.scheduler.explain.explain import explain as explained
    from gmi_drl.scheduler.explain.paper_formulas import paper_document
    from gmi_drl.scheduler.price import cost_per_billion_steps

    candidates = [
        {**candidate.point.model_dump(mode="json"), "projected": candidate.projected, "expected": candidate.expected}
        | {"confirmed": candidate.confirmed, "error": candidate.error, "efficiency": candidate.efficiency}
        | {"by_model": {model: point.model_dump(mode="json") for model, point in candidate.by_model} or None}
        | ({} if hourly is None else {COST: cost_per_billion_steps(hourly, candidate.steps_per_second)})
        for candidate in plan.candidates
    ]
    return {
        "layout": plan.layout.model_dump(mode="json"),
        "learner": plan.learner,
        "noise": noise.model_dump(mode="json") if plan.basis and (noise := plan.basis.profile.noise) else None,
        "price_per_hour": hourly,
        "candidates": candidates,
        "divisions": [_division(way, hourly) for way in plan.divisions],
        "paper_model": paper_document(plan.candidates[0], plan.basis) if plan.basis else None,
        "memory": {str(size): asdict(model) for size, model in plan.memory.items()},
        "infeasible": [point.model_dump(mode="json") for point in plan.infeasible],
        **({"explained": [asdict(one) for one in explained(plan, hourly)]} if explain else {}),
    }


def _division(way: "Division", hourly: float | None) -> dict[str, object]:
    """A division into agents and trainers, with the speeds of all its GMIs together."""
    from dataclasses import asdict

    from gmi_drl.scheduler.price import cost_per_billion_steps

    known = asdict(way)
    cut = known.pop("cut")
    cost = {} if hourly is None else {COST: cost_per_billion_steps(hourly, way.steps_per_second)}
    told = {"steps_per_second": way.steps_per_second, "expected": way.expected, "error": way.error}
    return {**cut, **known, **told, **cost}
