"""Plans over the nodes of a cluster, or on one of them if that is best."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from gmi_drl.config.learners import LearnerConfig
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware.cluster import Cluster
from gmi_drl.hardware.node import Node
from gmi_drl.layout.reductions import require_across_hosts
from gmi_drl.scheduler.grid import profile_grid, why_no_grid
from gmi_drl.scheduler.objective import KINDS, Objective, worth
from gmi_drl.scheduler.plan import Plan, plan_measured
from gmi_drl.scheduler.profile import Profile
from gmi_drl.templates import TCG_EX, Template, devices_of
from gmi_drl.templates.over_nodes import OverNodes, about_network
from gmi_drl.units import human_count
from gmi_drl.workload import TaskSpec


def plan_cluster(
    task: TaskSpec,
    learner: LearnerConfig,
    cluster: Cluster,
    profile: Profile,
    *,
    template: Template = TCG_EX,
    keep_batch: int | None = None,
    backend: str | None = None,
    objective: Objective = "steps",
    remarks: Sequence[str] = (),
) -> Plan:
    """Choose the best measured points for all nodes together, or one node if several are no faster or do not fit.

    Args:
        task: The task to run.
        learner: The learner.
        cluster: The nodes.
        profile: Points of GMIs on such nodes.
        template: The template, which says what a GMI does.
        keep_batch: Samples per update that the layout must have.
        backend: The only backend whose points are taken; None for all.
        objective: What to maximise.
        remarks: Further reasons.

    Raises:
        UsageError: if the nodes cannot be planned together.
        NoFeasiblePlanError: if nothing in the profile fits, no point of all nodes together is as the user wants it, or
            their processors cannot sum gradients over hosts.
    """

    def on(node: Node, by: Template, why: Sequence[str], kinds: Sequence[Node]) -> Plan:
        most = min(devices_of(kind)[1] for kind in kinds)  # unlike models of GPUs are held to it, too
        cuts = profile_grid(profile, node, learner.horizon, keep_batch, backend)
        grid = tuple(cut for cut in cuts if cut.gmis_per_gpu <= most)
        return plan_measured(
            task,
            learner,
            node,
            profile,
            grid,
            template=by,
            remarks=why,
            objective=objective,
        )

    cluster = cluster.in_devices
    if none := why_no_grid(profile, cluster.whole, learner.horizon, keep_batch, backend):
        raise NoFeasiblePlanError(none)  # one node would not be what the user asks of all
    over = OverNodes(template, cluster)
    if cluster.count > 1 and over.communication(task, learner, cluster.whole).reduces:
        require_across_hosts(cluster.whole.cpu.architecture)
    alone = _best_alone(cluster, lambda node: on(node, template, remarks, [node]), objective)
    name = alone.layout.made_for.name if alone and alone.layout.made_for else ""
    try:
        together = on(cluster.whole, over, remarks, [part.kind for part in cluster.nodes])
    except NoFeasiblePlanError as error:
        if alone is None:
            raise
        why = "; ".join(line.strip() for line in str(error).splitlines())
        return _with_reasons(alone, [f"one node is taken, {name}, since all {cluster.count} cannot be planned: {why}"])
    best = together.candidates[0]
    communication = over.communication(task, learner, cluster.whole, best.cut.backend, profile.speeds)
    mapping = [[gmi.id for gmi in device.gmis] for device in together.layout.devices]
    samples = together.samples_per_update(best)
    iteration_s = samples / best.projected if best.projected else 0.0
    reasons = [about_network(communication, mapping, cluster, iteration_s)] if communication.reduces else []
    if alone is None:
        return _with_reasons(together, reasons)
    single = alone.candidates[0]
    if worth(single, objective) >= worth(best, objective):
        speed, of_all = (human_count(worth(one, objective)) for one in (single, best))
        why = f"one node is best, {name}: {speed} {KINDS[objective]}, all {cluster.count} do {of_all}"
        return _with_reasons(alone, [why, *reasons])
    gain = worth(best, objective) / worth(single, objective) if worth(single, objective) else float("inf")
    reasons.append(f"{gain:.2f}x the {KINDS[objective]} of one node ({single.cut.described})")
    return _with_reasons(together, reasons)


def _best_alone(cluster: Cluster, on: Callable[[Node], Plan], objective: Objective) -> Plan | None:
    """The best plan for a single node, of all kinds; None if none is feasible."""
    plans = []
    for part in cluster.nodes:
        try:
            plans.append(on(part.kind))
        except NoFeasiblePlanError:
            continue
    return max(plans, key=lambda plan: worth(plan.candidates[0], objective), default=None)


def _with_reasons(plan: Plan, reasons: Sequence[str]) -> Plan:
    layout = plan.layout
    return replace(plan, layout=layout.model_copy(update={"reasons": (*layout.reasons, *reasons)}))
