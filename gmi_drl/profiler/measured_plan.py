"""Plans for this machine: explores points, confirms the best by running them, chooses."""

import math
from collections.abc import Callable, Sequence
from contextlib import closing
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
from gmi_drl.profiler.points import CAREFUL_ABOVE, MEASURE_S, AskSpeeds, PointMeasurer, pace_on
from gmi_drl.profiler.session import Measured
from gmi_drl.profiler.speeds import SpeedsWhenAsked
from gmi_drl.scheduler import Plan, plan_measured, search
from gmi_drl.scheduler.candidate import Candidate
from gmi_drl.scheduler.candidates import candidates_of, samples_per_update, worth_of
from gmi_drl.scheduler.exploration import Grid, Worth
from gmi_drl.scheduler.grid import gpu_simulates, otherwise_capped, with_caps
from gmi_drl.scheduler.memory import shortage_together
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.scheduler.objective import Objective
from gmi_drl.scheduler.profile import Profile, ProfilePoint
from gmi_drl.templates import TCG_EX, Template, devices_of
from gmi_drl.units import human_count
from gmi_drl.workload import TaskSpec

NOISE_PART = 0.2
"""Largest part of the budget for the gradient noise scale, on which the worth of a batch depends."""

TOO_SHORT = "the budget leaves no time to measure the gradient noise scale"

NOISE_UNKNOWN = "the gradient's noise is too large to measure the gradient noise scale"

EXPLORED = 0.5
"""Part of the remaining budget for exploring; the rest is for confirming."""

CONFIRMED = 2
"""Candidates that are confirmed, each next to its rival with one GMI per device."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Exploration:
    """The result of exploring.

    Args:
        profile: The measured points.
        unmeasured: Points for which there was no time.
        until_it_iterates_s: Seconds from the start of a process to its first iteration.
    """

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
    """Measure on this machine and choose a plan.

    Args:
        task: The task to train.
        config: The configuration of the run. Our PPO is measured if its learner has no probe, see `measurable`.
        node: This machine.
        grid: The cuts that may be chosen.
        template: The template, which says what a GMI does.
        seconds: Time for all but what the first GMI compiles. The reasons name the points that were left out.
        fresh: Measure again what was measured before.
        tell: Called with each line about progress.
        remarks: Further reasons for the layout.
        objective: What to maximise; `learning` needs a short training first. None: `learning` if candidates differ in
            what their steps teach and the learner allows to measure it, else `steps`.

    Raises:
        UsageError: if the learner has no probe for its gradient noise scale and `objective` is `learning`.
        NoFeasiblePlanError: if nothing runs or fits; for `learning`, also if the gradient drowns in its noise.
        LayoutMismatchError: if a device is in use.
        MachineError: if this machine lacks what the learner needs.
    """
    learner = config.learner
    config = measurable(task, config, template, tell)
    require_time(seconds, Cache(task, config, node, template=template, fresh=fresh), grid)
    budget = budget_of(seconds, task, config, node, tell)
    asked = SpeedsWhenAsked(task, config.learner, node, template, fresh=fresh, tell=tell)
    asked.about(() if node.num_gpus else grid, budget)  # on a GPU they take as long as a walk, so one GMI is first
    noise = None
    if objective == "learning":
        noise = known_noise(task, config, node, budget.part(NOISE_PART), fresh=fresh, tell=tell)
    elif objective is None and _efficiency_differs(grid, template, config, node):
        is_enough = _allows_noise(seconds, Cache(task, config, node, fresh=fresh))
        if is_enough:
            noise = noise_here(task, config, node, budget.part(NOISE_PART), fresh=fresh, tell=tell)
        if not noise:
            remarks = [*remarks, f"{NOISE_UNKNOWN if is_enough else TOO_SHORT}; so the most steps/s were chosen"]
    aim: Objective = "learning" if noise else "steps"
    known = {"speeds": asked.known, "noise": noise}  # more speeds are added when they are asked for
    if len(grid) <= CONFIRMED and all(cut.uncut.num_env <= CAREFUL_ABOVE for cut in grid):
        found = Exploration(Profile(task=task.name, learner=config.learner.kind, node=node.name, points=()), (), 0.0)
        cuts = rivals(with_caps(grid))  # few and small: run all of them together, without exploring
        asked.about(cuts, budget)
    else:
        kept, worth = 1 - EXPLORED, _worth(task, config, node, noise)
        found = explore(
            task, config, node, grid, budget, asked, template=template, kept=kept, worth=worth, fresh=fresh, tell=tell
        )
        asked.about(rivals([point.cut for point in found.profile.points]), budget)
        candidates, _ = candidates_of(task, learner, node, found.profile.model_copy(update=known), grid, template, aim)
        cuts = _affordable(candidates, found, node, learner.horizon, budget)
    confirmations = _confirm(task, config, node, cuts, budget, asked.known, template, tell) if cuts else []
    ran = [one for one in confirmations if one.point.runnable and not one.point.disturbance]
    confirmed = {one.point.cut: one.steps_per_second for one in ran}
    return plan_measured(
        task,
        learner,
        node,
        _with_points(found.profile, [one.point for one in confirmations]).model_copy(update=known),
        _with_rivals(grid, cuts),
        template=template,
        confirmed=confirmed,
        from_run=[cut for cut in confirmed if found.profile.point(cut) is None],
        unmeasured=[cut for cut in found.unmeasured if cut not in confirmed],
        remarks=remarks,
        objective=aim,
    )


def _worth(task: TaskSpec, config: RunConfig, node: Node, noise: NoiseScale | None) -> Worth | None:
    """What a search goes by where the simulator is on a GPU. None elsewhere: it goes by saturation."""
    return worth_of(node, config.learner, noise) if gpu_simulates(node, task, config.physics) else None


def require_time(seconds: float, cache: Cache, grid: Grid) -> None:
    """Refuse a budget too small to measure a point, unless the cache has a point of the grid.

    Raises:
        NoFeasiblePlanError: with the smallest sufficient budget.
    """
    first_s = math.ceil(pace_on(cache.node).first_s)
    if seconds < first_s and not any(point.cut in grid for point in cache.profile.points):
        least = f"one start and one point take about {first_s} s: give --budget {first_s} at least"
        raise NoFeasiblePlanError(f"{seconds:g} s are too few to measure anything: {least}")


def _allows_noise(seconds: float, cache: Cache) -> bool:
    """Whether the noise scale is known, or its measurement leaves time for a first point."""
    pace = pace_on(cache.node)
    return cache.profile.noise is not None or seconds >= pace.first_s + pace.first_s / EXPLORED


def known_noise(
    task: TaskSpec, config: RunConfig, node: Node, budget: Budget, *, fresh: bool, tell: Tell
) -> NoiseScale:
    """The gradient noise scale, see `noise_here`. Raises NoFeasiblePlanError if it cannot be estimated."""
    noise = noise_here(task, config, node, budget, fresh=fresh, tell=tell)
    if noise is None:
        raise NoFeasiblePlanError(f"{NOISE_UNKNOWN}: give more with --budget, or take --objective steps")
    return noise


def _efficiency_differs(grid: Grid, template: Template, config: RunConfig, node: Node) -> bool:
    """Whether updates of the candidates differ in size, and the learner has a probe for its noise scale."""
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
    """How fast this machine's GMIs reduce, for each backend of a grid, measured once per machine."""
    asked = SpeedsWhenAsked(task, config.learner, node, template, fresh=fresh, tell=tell)
    asked.about(grid, budget)
    return asked.known


def explore(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    grid: Grid,
    budget: Budget,
    speeds: AskSpeeds = lambda backend, budget: {},
    *,
    template: Template = TCG_EX,
    exhaustive: bool = False,
    kept: float = 0.0,
    worth: Worth | None = None,
    fresh: bool = False,
    tell: Tell = lambda line: None,
) -> Exploration:
    """Measure points of a grid on this machine, at least one.

    Args:
        task: The task to measure.
        config: The configuration. Our PPO is measured if its learner has no probe, see `measurable`.
        node: This machine.
        grid: The cuts to measure.
        template: The template, which says what a GMI does.
        budget: For everything, see `budget_of`.
        speeds: Tells how fast GMIs reduce, which decides by which reduction they are measured.
        exhaustive: Measure the whole grid, not only what `search` asks for.
        kept: Part of the budget that is not for exploring. On a GPU, where a start takes long, one GMI may use it.
        worth: See `search`.
        fresh: Measure again what was measured before.
        tell: Called with a line about every point.

    Raises:
        MachineError: if this machine lacks what the learner needs.
    """
    config = measurable(task, config, template, tell)
    cache = Cache(task, config, node, template=template, fresh=fresh)

    def told(point: ProfilePoint) -> None:
        tell(f"{_described(point)}{measure.disturbance if point.disturbance else ''}")

    if not node.num_gpus:
        budget, kept = budget.part(1 - kept), 0.0
    measure = PointMeasurer(
        task, config, node, cache, grid, budget, told, speeds=speeds, template=template, one_at_least=True, kept=kept
    )
    with closing(measure):
        if exhaustive:
            for cut in grid:
                measure(cut)
        else:
            search(measure, grid, worth)
            for point in cache.profile.points:  # points from the cache, perhaps beyond where this search stopped
                if point.cut in grid:
                    measure(point.cut)
        until_it_iterates_s = measure.pace.start_s + measure.pace.beside_s
        return Exploration(measure.profile, tuple(measure.unmeasured), until_it_iterates_s)


def _affordable(
    candidates: Sequence[Candidate], found: Exploration, node: Node, horizon: int, budget: Budget
) -> list[Cut]:
    """The best candidates and their rivals, as many as fit the memory and can run one round within the budget.

    If GMIs of a candidate can be capped, the same cut with caps (or without, if it has caps) follows. All layouts that
    are alive at once share the memory. In one round each is started once, at the beginning or before it runs.
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
    """The best candidate of each backend, then the rest, so that several backends are confirmed."""
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
    tell(f"running together, in turn (GMIs per device x environments): {', '.join(map(str, cuts))}")

    def on_round(number: int, cut: Cut, measured: Measured) -> None:
        speed = f"{human_count(measured.steps_per_second)} steps/s in all"
        tell(f"round {number + 1}: {cut}  {speed}{measured.disturbance}")

    confirmations = confirm(task, config, node, cuts, budget, on_round, speeds=speeds, template=template)
    for one in confirmations:
        if not one.point.runnable:
            tell(_described(one.point))
    return confirmations


def _with_rivals(grid: Grid, cuts: Sequence[Cut]) -> Grid:
    """The grid and the confirmed cuts beside it that may be chosen, too.

    These are cuts with capped GMIs. Those with one GMI per device join if the grid leaves their size open and has
    their backend.
    """
    any_solo = sum(cut.gmis_per_gpu == 1 for cut in grid) > 1
    solo_by = {cut.backend for cut in grid if any_solo}
    return [*grid, *(cut for cut in cuts if cut not in grid and (cut.gmis_per_gpu > 1 or cut.backend in solo_by))]


def _with_points(profile: Profile, points: list[ProfilePoint]) -> Profile:
    """The profile with the points that it lacks, and with those that turned out not to run."""
    known = {point.cut: point for point in profile.points}
    usable = {cut for cut, point in known.items() if not point.disturbance}
    known |= {point.cut: point for point in points if not point.runnable or point.cut not in usable}
    return profile.model_copy(update={"points": tuple(known.values())})


def _described(point: ProfilePoint) -> str:
    where = point.cut.described
    if not point.runnable:
        return f"{where}: not runnable: {point.reason}"
    return f"{where}: one GMI does {human_count(point.steps_per_second)} steps/s"
