"""A plan for asynchronous training on this machine: measure what acts and what learns, each by itself, and divide.

What was chosen then runs with both sides at once, for what to expect of it. Machines like this one are each divided as
it is, with the sums between them by the model of their network.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from statistics import fmean
from typing import Any

from gmi_drl.cluster import Cluster
from gmi_drl.config import RunConfig, a3c_of
from gmi_drl.cut import Cut
from gmi_drl.errors import GmiError, NoFeasiblePlanError
from gmi_drl.gmi import claimed
from gmi_drl.hardware import Node
from gmi_drl.layout import Channels, Device, Layout, Projection
from gmi_drl.profile import ProfilePoint
from gmi_drl.profiler.budget import Budget, budget_of
from gmi_drl.profiler.machines import Machines, require_alike
from gmi_drl.profiler.planning import explore, known_speeds
from gmi_drl.profiler.room import LESS_IN_CHANNELS
from gmi_drl.profiler.session import PATIENCE_S, Session, probe_of
from gmi_drl.scheduler import Plan
from gmi_drl.scheduler.division import AS_GOOD, Division, Waits, chosen, division_of, divisions
from gmi_drl.scheduler.memory import shortage
from gmi_drl.scheduler.search import Grid
from gmi_drl.templates import DECOUPLED, TCG, devices_of
from gmi_drl.units import human_count
from gmi_drl.workload import TaskSpec

ACTING = 0.7
"""Part of the budget for GMIs that act; the rest is for those that learn, which start without worlds."""

MEASURE_S = 1.0
"""Of updates of each size."""

TOGETHER_S = 3.0
"""Of both sides at once; one of them makes its worlds first."""

BESIDE = 0.8
"""The part of the time for which both sides must have run at once: in the rest one of them had the machine alone."""

TOLD = 3
"""Divisions that the reasons tell of."""

PROBE = "gmi_drl.roles.asynchronous.trainer_probe:TrainerProbe"


def plan_here(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    grid: Grid,
    *,
    seconds: float,
    fresh: bool = False,
    tell: Callable[[str], None] = lambda line: None,
    remarks: Sequence[str] = (),
    cluster: Cluster | None = None,
) -> Plan:
    """Measure both sides and choose. The arguments are those of `profiler.planning.plan_here`.

    With a `cluster` it is for all of its machines, which are like this one, or for one where more are no faster.

    Raises:
        NoFeasiblePlanError: if nothing was measured that leaves a GMI to train.
        LayoutMismatchError: if a device is in use.
        UsageError: if a machine of the cluster is another one than this.
    """
    if cluster is not None:
        require_alike(cluster, node)
    devices, _ = devices_of(node)
    several = [cut for cut in grid if devices * cut.gmis_per_gpu > 1]
    if not several:
        raise NoFeasiblePlanError(f"{node.name} has no room for an agent and a trainer: give it two GMIs")
    budget = budget_of(seconds, task, config, node, tell)
    found = explore(task, config, node, several, budget.part(ACTING), template=TCG, fresh=fresh, tell=tell)
    acting = [point for point in found.profile.points if point.runnable]
    learning = _learning(task, config, node, acting, budget, tell)
    speeds = known_speeds(task, config, node, several, template=DECOUPLED, fresh=fresh, tell=tell)

    horizon, machines = config.learner.horizon, Machines(task, config, speeds, node, cluster)
    ways = _ways(machines, acting, learning)
    why = []
    if cluster is not None:
        one = Machines(task, config, speeds, node)
        ways_of_one = _ways(one, acting, learning)
        alone, together = (chosen(found).steps_per_second for found in (ways_of_one, ways))
        together *= machines.count
        why = [f"one node alone does {human_count(alone)} steps/s, all {machines.count} do {human_count(together)}"]
        if alone >= together:
            machines, ways = one, ways_of_one
    best = chosen(ways)
    ran = _together(best, task, config, node, machines.waits, budget, tell)
    why += _reasons(machines, best, ways, ran)
    steps_per_second = machines.count * (ran or best).steps_per_second
    projection = Projection(measured=True, steps_per_second=steps_per_second)
    return Plan(machines.layout(best, projection, [*remarks, *why]), horizon=horizon, learner=config.learner.kind)


def _ways(machines: Machines, acting: Sequence[ProfilePoint], learning: Mapping[Cut, float]) -> list[Division]:
    """Those to divide each of the machines that have room, the fastest first."""
    task, config, node = machines.task, machines.config, machines.node
    ways = divisions(node, acting, learning, config.learner.horizon, machines.waits)
    return _with_room(ways, acting, task, config, node)


def _reasons(machines: Machines, best: Division, ways: Sequence[Division], ran: Division | None) -> list[str]:
    why = [f"measured on this machine, each side while the other rested: {best.described}"]
    if machines.count > 1:
        why.append(f"so is each of {machines.count} nodes divided, whose trainers sum their gradients")
    if best is not ways[0]:
        why.append(f"at least {AS_GOOD:.0%} of the most, with fewer environments, whose steps teach more")
    why += [f"besides: {way.described}" for way in ways[:TOLD] if way is not best]
    return why + ([f"both sides at once: {ran.described}"] if ran else [])


def _learning(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    acting: Sequence[ProfilePoint],
    budget: Budget,
    tell: Callable[[str], None],
) -> dict[Cut, float]:
    """Steps per second that one GMI of each cut can learn from, as far as the budget goes; one at least."""
    learning: dict[Cut, float] = {}
    by_division: dict[tuple[str, int], list[Cut]] = {}
    for point in acting:
        by_division.setdefault(point.cut.division, []).append(point.cut)
    for cuts in by_division.values():
        layout = _alone(task, node, cuts[0])
        with (
            claimed([layout], "gmi-drl is measuring") as claim,
            closing(Session(layout, config, role=PROBE)) as session,
        ):
            budget.start(session, claim)
            for cut in cuts:
                if learning and budget.left_s < MEASURE_S:
                    break
                measured = session.measure(cut.num_env, MEASURE_S, deadline_s=PATIENCE_S)
                learning[cut] = measured.steps_per_second
                tell(f"{cut.described}: one GMI can learn from {measured.steps_per_second:.0f} steps/s")
    return learning


def _together(
    way: Division,
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    sums: Waits,
    budget: Budget,
    tell: Callable[[str], None],
) -> Division | None:
    """The chosen division while nobody rests: all share the memory's bandwidth, and perhaps cores.

    None if there is no time for it, it fails, or the two sides did not run at the same time for long.
    """
    if budget.left_s < TOGETHER_S:
        return None
    layout = TCG.lay_out(task, node, way.cut)
    acts = probe_of(layout, config)
    roles = {gmi.id: acts if number < way.agents else PROBE for number, gmi in enumerate(layout.gmis)}
    with claimed([layout], "gmi-drl is measuring") as claim, closing(Session(layout, config, role=roles)) as session:
        try:
            budget.start(session, claim)
            rows = session.measure(way.cut.num_env, TOGETHER_S, deadline_s=PATIENCE_S).rows
        except GmiError as error:
            tell(f"both sides at once did not run: {str(error).splitlines()[0]}")
            return None
    ran = _ran(way, rows, config.learner.horizon, sums)
    if ran:
        tell(f"both sides at once: {ran.described}")
    return ran


def _ran(way: Division, rows: Sequence[Mapping[str, Any]], horizon: int, sums: Waits) -> Division | None:
    """A division by what its GMIs report, agents first; None if they ran beside each other too briefly."""
    beside_s = min(row["ended_s"] for row in rows) - max(row["began_s"] for row in rows)
    if beside_s < BESIDE * max(row["ended_s"] - row["began_s"] for row in rows):
        return None
    cut, speeds = way.cut, [way.cut.num_env * horizon / row["iteration_s"] for row in rows]
    acting, learning = fmean(speeds[: way.agents]), fmean(speeds[way.agents :])
    point = ProfilePoint(
        gmis_per_gpu=cut.gmis_per_gpu, num_env=cut.num_env, backend=cut.backend, runnable=True, steps_per_second=acting
    )
    return division_of(point, learning, len(rows), way.trainers, horizon, sums)


def _alone(task: TaskSpec, node: Node, cut: Cut) -> Layout:
    """One GMI with its part of the first device."""
    whole = TCG.lay_out(task, node, cut)
    device = whole.devices[0]
    first = Device(kind=device.kind, index=device.index, gmis=device.gmis[:1])
    return Layout(task=whole.task, template=whole.template, backend=whole.backend, devices=(first,))


def _with_room(
    ways: list[Division], acting: Sequence[ProfilePoint], task: TaskSpec, config: RunConfig, node: Node
) -> list[Division]:
    """Those whose GMIs and channels the host holds.

    Raises:
        NoFeasiblePlanError: if none is left, with the numbers of the fastest.
    """
    learner, points = a3c_of(config), {point.cut: point for point in acting}

    def short(way: Division) -> str | None:
        rollouts = learner.rollouts_of(way.agents, way.trainers)
        channels = way.trainers * learner.batches_bytes(task, Channels(), rollouts, way.cut.num_env)
        point, gmis = points[way.cut], way.agents + way.trainers
        return shortage(node, gmis, point.gmis_per_gpu, point.memory_bytes, point.host_bytes, channels)

    roomy = [way for way in ways if short(way) is None]
    if ways and not roomy:
        raise NoFeasiblePlanError(f"{ways[0].described}, but {short(ways[0])}: {LESS_IN_CHANNELS}")
    return roomy
