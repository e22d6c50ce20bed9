"""A plan for this machine: explore, confirm the best by running them, choose."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gmi_drl.config import RunConfig
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware import Node
from gmi_drl.profile import Profile, ProfilePoint
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.cache import Cache
from gmi_drl.profiler.confirm import Confirmation, Place, confirm, rivals
from gmi_drl.profiler.points import CAREFUL_ABOVE, MEASURE_S, PointMeasurer
from gmi_drl.scheduler import Plan, plan_measured, search
from gmi_drl.scheduler.memory import shortage_together
from gmi_drl.scheduler.plan import candidates_of
from gmi_drl.scheduler.search import Candidate, Grid
from gmi_drl.templates import devices_of
from gmi_drl.units import human_count
from gmi_drl.workload import TaskSpec

EXPLORED = 0.5
"""Part of the budget for exploring; the rest is for confirming."""

CONFIRMED = 2
"""Candidates that are confirmed, each beside its rival with one GMI per device."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Exploration:
    """The points that were measured, those that there was no time for, and how long a process takes to start."""

    profile: Profile
    unmeasured: tuple[Place, ...]
    start_s: float


def plan_here(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    grid: Grid,
    *,
    seconds: float,
    fresh: bool = False,
    tell: Tell = lambda line: None,
) -> Plan:
    """Measure on this machine and choose.

    Args:
        task: What is trained.
        config: How.
        node: This machine.
        grid: What to look at.
        seconds: For everything. What there is no time for is named in the reasons.
        fresh: Measure anew what was measured before.
        tell: Told what is going on, in a line.

    Raises:
        NoFeasiblePlanError: if nothing runs or fits.
        LayoutMismatchError: if a device is in use.
    """
    budget = Budget(seconds)
    asked = [(size, num_env) for size, num_envs in grid.items() for num_env in num_envs]
    if len(asked) <= CONFIRMED and all(size * num_env <= CAREFUL_ABOVE for size, num_env in asked):
        found = Exploration(Profile(task=task.name, algo=config.learner.kind, node=node.name, points=()), (), 0.0)
        places = rivals(asked)  # so few and small: run them all at once
    else:
        found = explore(task, config, node, grid, budget.part(EXPLORED), fresh=fresh, tell=tell)
        if not found.profile.points:
            raise NoFeasiblePlanError(f"{seconds:.0f} s are too few to measure anything: give more with --budget")
        candidates, _ = candidates_of(task, config.learner, node, found.profile, grid)
        places = _affordable(candidates, found, node, config.learner.horizon, budget)
    confirmations = _confirm(task, config, node, places, budget, tell) if places else []
    confirmed = {place_of(one.point): one.steps_per_second for one in confirmations if one.point.runnable}
    return plan_measured(
        task,
        config.learner,
        node,
        _with_points(found.profile, [one.point for one in confirmations]),
        _with_rivals(grid, places),
        confirmed=confirmed,
        unmeasured=[place for place in found.unmeasured if place not in confirmed],
    )


def explore(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    grid: Grid,
    budget: Budget,
    *,
    exhaustive: bool = False,
    fresh: bool = False,
    tell: Tell = lambda line: None,
) -> Exploration:
    """Measure points of a grid on this machine.

    Args:
        task: What is measured.
        config: How it trains.
        node: This machine.
        grid: What to look at.
        budget: For everything.
        exhaustive: All of the grid; else what `search` looks at.
        fresh: Measure anew what was measured before.
        tell: Told of every point, in a line.
    """
    cache = Cache(task, config, node, fresh=fresh)
    with PointMeasurer(task, config, node, cache, grid, budget, lambda point: tell(_described(point))) as measure:
        if exhaustive:
            for size, num_envs in grid.items():
                for num_env in num_envs:
                    measure(size, num_env)
        else:
            search(measure, grid)
            for point in cache.profile.points:  # measured before, perhaps beyond where this search has stopped
                if point.num_env in grid.get(point.gmis_per_gpu, ()):
                    measure(*place_of(point))
        return Exploration(measure.profile, tuple(measure.unmeasured), measure.start_s)


def place_of(point: ProfilePoint) -> Place:
    """Where a point lies in the grid."""
    return point.gmis_per_gpu, point.num_env


def _affordable(
    candidates: Sequence[Candidate], found: Exploration, node: Node, horizon: int, budget: Budget
) -> list[Place]:
    """The best candidates and their rivals, as many as can start, live at once and run a round within the budget."""
    num_devices, _ = devices_of(node)
    affordable: list[Place] = []
    cost_s = 0.0
    for candidate in candidates[:CONFIRMED]:
        pair = [place for place in rivals([place_of(candidate.point)]) if place not in affordable]
        steps = candidate.point.num_env * candidate.point.gmis_per_gpu * num_devices * horizon
        round_s = max(MEASURE_S, steps / candidate.expected) if candidate.expected else 0.0
        cost_s += len(pair) * (found.start_s + 2 * round_s)
        if cost_s > budget.left_s or shortage_together(node, num_devices, found.profile.points, affordable + pair):
            break
        affordable += pair
    return affordable


def _confirm(
    task: TaskSpec, config: RunConfig, node: Node, places: list[Place], budget: Budget, tell: Tell
) -> list[Confirmation]:
    named = ", ".join(f"{size} x {num_env}" for size, num_env in places)
    tell(f"running together, by turns (GMIs per device x environments): {named}")

    def on_round(number: int, place: Place, steps_per_second: float) -> None:
        tell(f"round {number + 1}: {place[0]} x {place[1]}  {human_count(steps_per_second)} steps/s in all")

    confirmations = confirm(task, config, node, places, budget, on_round)
    for one in confirmations:
        if not one.point.runnable:
            tell(_described(one.point))
    return confirmations


def _with_rivals(grid: Grid, places: Sequence[Place]) -> Grid:
    """Where one GMI per device may have any number of environments, those that it ran with count, too."""
    solo = grid.get(1, ())
    if len(solo) < 2:
        return grid
    return {**grid, 1: sorted({*solo, *(num_env for size, num_env in places if size == 1)})}


def _with_points(profile: Profile, points: list[ProfilePoint]) -> Profile:
    """A profile with the points that it does not have, and those that have turned out not to run."""
    known = {place_of(point): point for point in profile.points}
    known |= {place_of(point): point for point in points if not point.runnable or place_of(point) not in known}
    return profile.model_copy(update={"points": tuple(known.values())})


def _described(point: ProfilePoint) -> str:
    where = f"{point.gmis_per_gpu} x {point.num_env} environments"
    if not point.runnable:
        return f"{where}: not runnable: {point.reason}"
    return f"{where}: one GMI does {human_count(point.steps_per_second)} steps/s"
