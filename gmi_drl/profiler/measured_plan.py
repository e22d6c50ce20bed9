"""A plan for this machine: explore, confirm the best by running them, choose."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import Speed, SpeedsByBackend
from gmi_drl.layout.backends import coexist
from gmi_drl.layout.cut import Cut
from gmi_drl.profiler.budget import Budget, budget_of
from gmi_drl.profiler.cache import Cache
from gmi_drl.profiler.confirm import Confirmation, confirm, rivals
from gmi_drl.profiler.measurable import measurable
from gmi_drl.profiler.noise import noise_here
from gmi_drl.profiler.points import CAREFUL_ABOVE, MEASURE_S, PointMeasurer, pace_on
from gmi_drl.profiler.speeds import speeds_here
from gmi_drl.scheduler import Plan, plan_measured, search
from gmi_drl.scheduler.candidates import candidates_of, samples_per_update
from gmi_drl.scheduler.grid import otherwise_capped, with_caps
from gmi_drl.scheduler.memory import shortage_together
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.scheduler.objective import Objective
from gmi_drl.scheduler.profile import Profile, ProfilePoint
from gmi_drl.scheduler.search import Candidate, Grid
from gmi_drl.templates import TCG_EX, Template, devices_of
from gmi_drl.units import human_count
from gmi_drl.workload import TaskSpec

TAUGHT = 0.2
"""Part of the budget for what steps teach, at most."""

TOO_SHORT = "the budget leaves no time to find out what steps teach"

DROWNS = "the gradient drowns in its noise, so nothing says what a step teaches"

EXPLORED = 0.5
"""Part of the rest for exploring; what is left then is for confirming."""

CONFIRMED = 2
"""Candidates that are confirmed, each beside its rival with one GMI per device."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Exploration:
    """The points that were measured, those that there was no time for, and what a process takes to iterate."""

    profile: Profile
    unmeasured: tuple[Cut, ...]
    until_it_iterates_s: float


def plan_here(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    grid: Grid,
    *,
    template: Template = TCG_EX,
    seconds: float,
    fresh: bool = False,
    tell: Tell = lambda line: None,
    remarks: Sequence[str] = (),
    objective: Objective | None = None,
) -> Plan:
    """Measure on this machine and choose.

    Args:
        task: What is trained.
        config: How; by our PPO where its learner brings no probe, see `measurable`.
        node: This machine.
        grid: What to look at.
        template: What a GMI does.
        seconds: For everything but what the first GMI compiles. What there is no time for is named in the reasons.
        fresh: Measure anew what was measured before.
        tell: Told what is going on, in a line.
        remarks: Further reasons for the layout.
        objective: What to make the most of; `learning` takes a short training first. None: that where candidates differ
            in what their steps teach and this can be told, else `steps`.

    Raises:
        UsageError: if nothing measures what this learner learns.
        NoFeasiblePlanError: if nothing runs or fits, or the gradient drowns in its noise.
        LayoutMismatchError: if a device is in use.
        MachineError: if this machine lacks what the learner needs.
    """
    learner = config.learner
    config = measurable(task, config, template, tell)
    require_time(seconds, Cache(task, config, node, template=template, fresh=fresh), grid)
    budget = budget_of(seconds, task, config, node, tell)
    speeds = known_speeds(task, config, node, grid, budget, template=template, fresh=fresh, tell=tell)
    noise = None
    if objective == "learning":
        noise = known_noise(task, config, node, budget.part(TAUGHT), fresh=fresh, tell=tell)
    elif objective is None and _may_teach_unlike(grid, template, config, node):
        is_long = _pays_for_noise(seconds, Cache(task, config, node, fresh=fresh))
        if is_long:
            noise = noise_here(task, config, node, budget.part(TAUGHT), fresh=fresh, tell=tell)
        remarks = [
            *remarks,
            *([] if noise else [f"{DROWNS if is_long else TOO_SHORT}; so the most steps/s were chosen"]),
        ]
    aim: Objective = "learning" if noise else "steps"
    if len(grid) <= CONFIRMED and all(cut.uncut.num_env <= CAREFUL_ABOVE for cut in grid):
        found = Exploration(Profile(task=task.name, learner=config.learner.kind, node=node.name, points=()), (), 0.0)
        cuts = rivals(with_caps(grid))  # so few and small: run them all at once
    else:
        part = budget.part(EXPLORED)
        found = explore(task, config, node, grid, part, speeds, template=template, fresh=fresh, tell=tell)
        profile = found.profile.model_copy(update={"speeds": speeds, "noise": noise})
        candidates, _ = candidates_of(task, learner, node, profile, grid, template, aim)
        cuts = _affordable(candidates, found, node, learner.horizon, budget)
    confirmations = _confirm(task, config, node, cuts, budget, speeds, template, tell) if cuts else []
    confirmed = {one.point.cut: one.steps_per_second for one in confirmations if one.point.runnable}
    return plan_measured(
        task,
        learner,
        node,
        _with_points(found.profile, [one.point for one in confirmations]).model_copy(
            update={"speeds": speeds, "noise": noise}
        ),
        _with_rivals(grid, cuts),
        template=template,
        confirmed=confirmed,
        from_run=[cut for cut in confirmed if found.profile.point(cut) is None],
        unmeasured=[cut for cut in found.unmeasured if cut not in confirmed],
        remarks=remarks,
        objective=aim,
    )


def require_time(seconds: float, cache: Cache, grid: Grid) -> None:
    """Refuse a budget in which nothing can be measured, where nothing is known from before.

    Raises:
        NoFeasiblePlanError: with the least budget.
    """
    first_s = math.ceil(pace_on(cache.node).first_s)
    if seconds < first_s and not any(point.cut in grid for point in cache.profile.points):
        least = f"one start and one point take about {first_s} s: give --budget {first_s} at least"
        raise NoFeasiblePlanError(f"{seconds:g} s are too few to measure anything: {least}")


def _pays_for_noise(seconds: float, cache: Cache) -> bool:
    """Whether what steps teach is known, or leaves the time for a first point when it has been found out."""
    pace = pace_on(cache.node)
    return cache.profile.noise is not None or seconds >= pace.first_s + pace.first_s / EXPLORED


def known_noise(
    task: TaskSpec, config: RunConfig, node: Node, budget: Budget, *, fresh: bool, tell: Tell
) -> NoiseScale:
    """The gradient noise scale, without which nothing says what candidates teach; see `noise_here`."""
    noise = noise_here(task, config, node, budget, fresh=fresh, tell=tell)
    if noise is None:
        raise NoFeasiblePlanError(f"{DROWNS}: give more with --budget, or take --objective steps")
    return noise


def _may_teach_unlike(grid: Grid, template: Template, config: RunConfig, node: Node) -> bool:
    """Whether updates of candidates have unlike numbers of samples, and the learner brings what tells their worth."""
    if template.purpose != "training" or LEARNERS.find(config.learner.kind).noise_probe is None:
        return False
    return len({samples_per_update(cut, node, config.learner) for cut in grid}) > 1


def known_speeds(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    grid: Grid,
    budget: Budget,
    *,
    template: Template = TCG_EX,
    fresh: bool = False,
    tell: Tell = lambda line: None,
) -> dict[str, dict[str, Speed]]:
    """How fast this machine's GMIs reduce, by the backends of a grid whose layouts have several that do.

    Measured once per machine, before anything that reduces: by these speeds GMIs are laid out to be measured.
    """
    num_devices, _ = devices_of(node)
    backends = dict.fromkeys(cut.backend for cut in grid if num_devices * cut.gmis_per_gpu > 1)
    if not template.communication(task, config.learner, node).reduces:
        return {}
    return speeds_here(node, backends, budget, fresh=fresh, tell=tell)


def explore(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    grid: Grid,
    budget: Budget,
    speeds: SpeedsByBackend | None = None,
    *,
    template: Template = TCG_EX,
    exhaustive: bool = False,
    fresh: bool = False,
    tell: Tell = lambda line: None,
) -> Exploration:
    """Measure points of a grid on this machine, one at least.

    Args:
        task: What is measured.
        config: How it trains; by our PPO where its learner brings no probe, see `measurable`.
        node: This machine.
        grid: What to look at.
        template: What a GMI does.
        budget: For everything, see `budget_of`.
        speeds: By which GMIs that are measured together are laid out to reduce; None where they are not known.
        exhaustive: All of the grid; else what `search` looks at.
        fresh: Measure anew what was measured before.
        tell: Told of every point, in a line.

    Raises:
        MachineError: if this machine lacks what the learner needs.
    """
    config = measurable(task, config, template, tell)
    cache = Cache(task, config, node, template=template, fresh=fresh)

    def on_point(point: ProfilePoint) -> None:
        tell(_described(point))

    with PointMeasurer(
        task, config, node, cache, grid, budget, on_point, speeds=speeds, template=template, one_at_least=True
    ) as measure:
        if exhaustive:
            for cut in grid:
                measure(cut)
        else:
            search(measure, grid)
            for point in cache.profile.points:  # measured before, perhaps beyond where this search has stopped
                if point.cut in grid:
                    measure(point.cut)
        until_it_iterates_s = measure.pace.start_s + measure.pace.beside_s
        return Exploration(measure.profile, tuple(measure.unmeasured), until_it_iterates_s)


def _affordable(
    candidates: Sequence[Candidate], found: Exploration, node: Node, horizon: int, budget: Budget
) -> list[Cut]:
    """The best candidates and their rivals, as many as the memory holds and as can run a round within the budget.

    Where their GMIs can be capped, the same with caps (or without, if it has some) comes behind each. All that live at
    once share the memory. In one round each is started once, be it at the beginning or for its turn.
    """
    num_devices, _ = devices_of(node)
    affordable: list[Cut] = []
    cost_s = 0.0
    for candidate in _best_of_each_backend_first(candidates)[:CONFIRMED]:
        best = candidate.point.cut
        steps = best.uncut.num_env * num_devices * horizon
        round_s = max(MEASURE_S, steps / candidate.expected) if candidate.expected else 0.0
        for some in (rivals([best]), otherwise_capped(best)):
            new = [cut for cut in some if cut not in affordable]
            cost_s += len(new) * (found.until_it_iterates_s + 2 * round_s)
            together = affordable + new
            alive = [together] if coexist(cut.backend for cut in together) else [[cut] for cut in together]
            short = any(shortage_together(node, num_devices, found.profile.points, cuts) for cuts in alive)
            if cost_s > budget.left_s or short:
                return affordable
            affordable = together
    return affordable


def _best_of_each_backend_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """So that backends are run by turns, too, where several were measured."""
    firsts: dict[str, Candidate] = {}
    for candidate in candidates:
        firsts.setdefault(candidate.point.backend, candidate)
    return [*firsts.values(), *(candidate for candidate in candidates if candidate not in firsts.values())]


def _confirm(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    cuts: list[Cut],
    budget: Budget,
    speeds: SpeedsByBackend,
    template: Template,
    tell: Tell,
) -> list[Confirmation]:
    tell(f"running together, by turns (GMIs per device x environments): {', '.join(map(str, cuts))}")

    def on_round(number: int, cut: Cut, steps_per_second: float) -> None:
        tell(f"round {number + 1}: {cut}  {human_count(steps_per_second)} steps/s in all")

    confirmations = confirm(task, config, node, cuts, budget, on_round, speeds=speeds, template=template)
    for one in confirmations:
        if not one.point.runnable:
            tell(_described(one.point))
    return confirmations


def _with_rivals(grid: Grid, cuts: Sequence[Cut]) -> Grid:
    """What ran beside the candidates may be chosen, too.

    These are cuts with GMIs capped, and those with one GMI per device where that may have any number of environments.
    """
    any_solo = sum(cut.gmis_per_gpu == 1 for cut in grid) > 1
    return [*grid, *(cut for cut in cuts if cut not in grid and (any_solo or cut.gmis_per_gpu > 1))]


def _with_points(profile: Profile, points: list[ProfilePoint]) -> Profile:
    """A profile with the points that it does not have, and those that have turned out not to run."""
    known = {point.cut: point for point in profile.points}
    known |= {point.cut: point for point in points if not point.runnable or point.cut not in known}
    return profile.model_copy(update={"points": tuple(known.values())})


def _described(point: ProfilePoint) -> str:
    where = point.cut.described
    if not point.runnable:
        return f"{where}: not runnable: {point.reason}"
    return f"{where}: one GMI does {human_count(point.steps_per_second)} steps/s"
