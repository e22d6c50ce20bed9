"""Tables of divisions into agents and trainers: the speed expected of each side, and that of both together."""

from typing import TYPE_CHECKING

from gmi_drl.cli.plan.tables import best_first, cores_taken, cost_line
from gmi_drl.units import human_count, human_money

if TYPE_CHECKING:
    from rich.table import Table

    from gmi_drl.hardware.node import Node
    from gmi_drl.scheduler import Plan
    from gmi_drl.scheduler.agent_trainer_split import Division

ERROR = "error: expected, by the rates of each side running alone, over ran together, less 1"


def division_table(plan: "Plan", hourly: float | None = None) -> "Table":
    """The best divisions, laid out like `candidate_table`."""
    from gmi_drl.scheduler.price import cost_per_billion_steps

    several = len({way.cut.backend for way in plan.divisions}) > 1
    ran = any(way.confirmed is not None for way in plan.divisions)
    titles = (
        *(["backend"] if several else []),
        *("agents", "trainers", "environments each", "agents act", "trainers learn", "expected"),
        *(["ran together", "error"] if ran else []),
        *(["cost of 1G steps"] if hourly is not None else []),
    )

    def row(way: "Division") -> list[str]:
        cost = () if hourly is None else (human_money(cost_per_billion_steps(hourly, way.steps_per_second)),)
        return [
            *([way.cut.backend] if several else []),
            *(str(way.agents), str(way.trainers), str(way.cut.num_env)),
            *(human_count(speed) for speed in (way.produced, way.learnt, way.expected)),
            *(["" if way.confirmed is None else human_count(way.confirmed)] if ran else []),
            *(["" if way.error is None else f"{way.error:+.1%}"] if ran else []),
            *cost,
        ]

    return best_first(titles, [row(way) for way in plan.divisions])


def division_notes(plan: "Plan", node: "Node", hourly: float | None) -> list[str]:
    """A line each on the cores, the meaning of the error, and the cost of the choice."""
    has_errors = any(way.error is not None for way in plan.divisions)
    cost = [] if hourly is None else [cost_line(plan.divisions[0].steps_per_second, node, hourly)]
    return [cores_taken(plan.layout, node), *([ERROR] if has_errors else []), *cost]
