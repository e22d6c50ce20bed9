"""Plans asynchronous training on this machine: measures agents and trainers alone, then divides the GMIs among them.

The chosen division then runs with both sides at once, which confirms its speed. In a cluster of machines like this one
each is divided in the same way; the time of sums between them is predicted by the model of the network.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware.cluster import Cluster
from gmi_drl.hardware.node import Node
from gmi_drl.launch.known_rooms import SMALLER_RINGS, less_in_channels
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.layout import Projection
from gmi_drl.profiler.budget import budget_of
from gmi_drl.profiler.identical_machines import Machines, require_alike
from gmi_drl.profiler.measured_plan import known_speeds
from gmi_drl.profiler.rates import Rates, both_at_once, rates_here
from gmi_drl.scheduler import Plan
from gmi_drl.scheduler.agent_trainer_split import AS_GOOD, Division, chosen, divisions
from gmi_drl.scheduler.exploration import Grid
from gmi_drl.scheduler.memory import shortage
from gmi_drl.templates import DECOUPLED, devices_of, more_gmis
from gmi_drl.units import human_count
from gmi_drl.workload import TaskSpec

SHOWN = 3
"""Divisions that the reasons list."""


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
    """Measure both sides and choose. The arguments are those of `profiler.measured_plan.plan_here`.

    With a `cluster` the plan is for all its machines, which must be like this one, or for one if more are no faster.

    Raises:
        NoFeasiblePlanError: if nothing was measured that leaves a GMI to train.
        LayoutMismatchError: if a device is in use.
        UsageError: if a machine of the cluster differs from this one.
    """
    if cluster is not None:
        require_alike(cluster, node)
    cuts = _with_two_gmis(grid, node)
    budget = budget_of(seconds, task, config, node, tell)
    speeds = known_speeds(task, config, node, cuts, budget, template=DECOUPLED, fresh=fresh, tell=tell)
    rates = rates_here(task, config, node, cuts, budget, fresh=fresh, tell=tell)
    machines, ways, compared = _one_node_or_all(Machines(task, config, speeds, node), cluster, rates)
    best = chosen(ways)
    ran, outcome = both_at_once(best, machines, budget)
    tell(outcome)
    why = [*remarks, *compared, *_reasons(machines, best, ways), outcome, *_prediction_error(ran)]
    return _plan(machines, ran, [way for way in ways if way is not best], why)


def _with_two_gmis(grid: Grid, node: Node) -> Grid:
    """The cuts with at least two GMIs: one to act and one to train.

    Raises:
        NoFeasiblePlanError: if there is none.
    """
    devices, _ = devices_of(node)
    several = [cut for cut in grid if devices * cut.gmis_per_gpu > 1]
    if not several:
        raise NoFeasiblePlanError(f"{node.name} has no room for an agent and a trainer: {more_gmis(DECOUPLED.name, 2)}")
    return several


def _one_node_or_all(
    one: Machines, cluster: Cluster | None, rates: Rates
) -> tuple[Machines, list[Division], list[str]]:
    """All machines of a cluster, or one if more are no faster; the divisions of each; how they compare."""
    ways = _fitting_divisions(one, rates)
    if cluster is None:
        return one, ways, []
    many = replace(one, cluster=cluster)
    ways_of_many = _fitting_divisions(many, rates)
    alone, together = chosen(ways).expected, chosen(ways_of_many).on(many.count).expected
    why = [f"one node alone does {human_count(alone)} steps/s, all {many.count} do {human_count(together)}"]
    return (one, ways, why) if alone >= together else (many, ways_of_many, why)


def _fitting_divisions(machines: Machines, rates: Rates) -> list[Division]:
    """The ways to divide each machine whose GMIs and channels fit the host's memory, fastest first.

    Raises:
        NoFeasiblePlanError: if none fits, with the numbers of the fastest.
    """
    learner = machines.config.learner
    ways = divisions(machines.node, rates.acting, rates.learning, learner, machines.waits)
    points = {point.cut: point for point in rates.acting}

    def short(way: Division) -> str | None:
        rollouts = learner.rollouts_of(way.agents, way.trainers)
        channels = way.trainers * learner.batches_bytes(machines.task, Channels(), rollouts, way.cut.num_env)
        point, gmis = points[way.cut], way.agents + way.trainers
        has_gpus, worlds = machines.node.num_gpus > 0, rollouts * way.cut.num_env
        on_device, on_host = learner.ring_bytes(machines.task, worlds, of_rollouts=True, on_gpu=has_gpus)
        if not has_gpus:
            on_device, on_host = 0, on_device + on_host
        needed, besides = point.memory_bytes + on_device, "channels and rings" if on_host else "channels"
        host = channels + way.trainers * on_host
        return shortage(machines.node, gmis, point.gmis_per_gpu, needed, point.host_bytes, host, besides)

    fitting = [way for way in ways if short(way) is None]
    if ways and not fitting:
        has_rings = any(learner.ring_bytes(machines.task, ways[0].cut.num_env))
        remedy = less_in_channels(learner) + (f"; or {SMALLER_RINGS}" if has_rings else "")
        raise NoFeasiblePlanError(f"{ways[0].described}, but {short(ways[0])}: {remedy}")
    return fitting


def _reasons(machines: Machines, best: Division, ways: Sequence[Division]) -> list[str]:
    """The sentences that say what was chosen, why, and from which divisions."""
    why = [f"measured on this machine, each side while the other was idle: {best.described}"]
    if machines.count > 1:
        why.append(f"each of {machines.count} nodes is divided in this way, and all trainers sum their gradients")
    if best is not ways[0]:
        why.append(f"at least {AS_GOOD:.0%} of the most, with fewer environments, whose steps teach more")
    return why + [f"besides: {way.described}" for way in ways[:SHOWN] if way is not best]


def _prediction_error(ran: Division) -> list[str]:
    """A sentence that compares the predicted speed of the choice with the measured one, if it ran."""
    if ran.error is None:
        return []
    speeds = f"{human_count(ran.expected)} steps/s were expected, {human_count(ran.steps_per_second)} ran"
    return [f"by the rates of each side alone {speeds}: an error of {ran.error:+.1%}"]


def _plan(machines: Machines, best: Division, others: Sequence[Division], why: list[str]) -> Plan:
    """The plan: the layout of the choice, and all divisions with their numbers over all machines."""
    learner, (choice, *rest) = machines.config.learner, [way.on(machines.count) for way in (best, *others)]
    projection = Projection(measured=True, steps_per_second=choice.steps_per_second)
    layout = machines.layout(best, projection, why)
    return Plan(layout, horizon=learner.horizon, learner=learner.kind, divisions=(choice, *rest))
