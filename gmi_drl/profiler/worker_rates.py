"""Measures what one core does of simulating, answering and learning, for plans of workers."""

from collections.abc import Callable
from contextlib import closing

from gmi_drl.config.run_config import RunConfig, ppo_of
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.gmi import claimed
from gmi_drl.gmi.inventory import this_node
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut import Cut
from gmi_drl.profiler.budget import Budget, budget_of
from gmi_drl.profiler.session import PATIENCE_S, Session
from gmi_drl.scheduler.worker_rates import WorkerProfile, WorkerRates
from gmi_drl.templates import TCG_EX, WORKERS, devices_of
from gmi_drl.templates.template import all_in_one
from gmi_drl.units import human_count, human_value
from gmi_drl.workload import TaskSpec

PROBE = "gmi_drl.roles.probes.worker_probe:WorkerProbe"
CLAIM = "gmi-drl is measuring"
MEASURE_S = 1.0
"""Seconds of each size."""


def profile_here(
    task: TaskSpec, config: RunConfig, num_env: int, seconds: float, tell: Callable[[str], None]
) -> WorkerProfile:
    """The profile of this machine, of one of its cores.

    Raises:
        NoFeasiblePlanError: if it has GPUs, which are not measured yet.
        LayoutMismatchError: if the core is in use.
        UsageError: if it is not for PPO.
    """
    ppo_of(config)
    node = this_node()
    if node.num_gpus:
        raise NoFeasiblePlanError(f"{WORKERS.name} is measured on cores, and {node.name} has GPUs: hide them")
    _, cores = devices_of(node)
    rates = measured(task, config, node, Cut(cores, num_env), budget_of(seconds, task, config, node, tell))
    named = {"task": task.name, "learner": config.learner.kind, "node": node.name}
    return WorkerProfile.model_validate({**rates.model_dump(), **named})


def measured(task: TaskSpec, config: RunConfig, node: Node, cut: Cut, budget: Budget) -> WorkerRates:
    """The rates of one core, while the others are idle: with the environments of an actor, half and twice of them.

    Half and twice are left out if the budget is spent.
    """
    whole = TCG_EX.lay_out(task, node, cut)
    device = whole.devices[0].model_copy(update={"gmis": whole.devices[0].gmis[:1]})
    groups = all_in_one([[0]], WORKERS.usual([[0]], node, cut.backend))
    alone = whole.model_copy(update={"devices": (device,), "groups": groups})
    horizon, answers = config.learner.horizon, dict[int, float]()
    with claimed([alone], CLAIM) as claim, closing(Session(alone, config, role=PROBE)) as session:
        budget.start(session, claim)
        own = session.measure(cut.num_env, MEASURE_S, deadline_s=PATIENCE_S)
        answers[cut.num_env] = own.phases["act_s"] / horizon
        for num_env in (task.whole_worlds(max(1, cut.num_env // 2)), 2 * cut.num_env):
            if num_env not in answers and budget.left_s > 0:
                answers[num_env] = session.measure(num_env, MEASURE_S, deadline_s=PATIENCE_S).phases["act_s"] / horizon
    return WorkerRates(
        num_env=cut.num_env,
        step_s=own.phases["sim_s"] / horizon,
        answers=answers,
        update_s=own.phases["learn_s"] / (cut.num_env * horizon),
        trip_s=float(own.rows[0]["trip_s"]),
        agents=task.agents,
    )


def rates_told(rates: WorkerRates) -> str:
    """A sentence with what was measured."""
    step, trip = human_value(rates.step_s, "s"), human_value(rates.trip_s, "s")
    answers = ", ".join(f"{human_value(seconds, 's')} to {rows}" for rows, seconds in sorted(rates.answers.items()))
    learns = human_count(1 / rates.update_s)
    times = f"a step of {rates.num_env} environments takes {step}, an answer {answers} of them, a round trip {trip}"
    return f"measured on one core alone: {times}; it learns from {learns} samples/s"
