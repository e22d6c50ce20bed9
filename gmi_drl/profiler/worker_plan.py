"""Plans workers on the cores of this machine: measures one core alone, divides, and runs the best beside TCG_EX."""

from collections.abc import Callable, Sequence
from statistics import median

from gmi_drl.config.run_config import RunConfig, ppo_of
from gmi_drl.errors import GmiError, NoFeasiblePlanError, UsageError
from gmi_drl.hardware.cluster import Cluster
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.signature import signature_of
from gmi_drl.launch.job import resolve
from gmi_drl.launch.processes.temporary_folder import temporary_folder
from gmi_drl.launch.signals import EndedAtOnce
from gmi_drl.launch.training import train
from gmi_drl.layout.channels import Streams
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import GMI, Layout, Projection, Role
from gmi_drl.profiler.budget import Budget, budget_of
from gmi_drl.profiler.worker_rates import measured, rates_told
from gmi_drl.run.folder import RunFolder
from gmi_drl.scheduler import Plan
from gmi_drl.scheduler.exploration import Grid
from gmi_drl.scheduler.worker_rates import WorkerRates
from gmi_drl.scheduler.worker_split import WorkerSplit, worker_splits
from gmi_drl.templates import TCG_EX, WORKERS, devices_of, more_gmis
from gmi_drl.templates.template import all_in_one
from gmi_drl.units import human_count
from gmi_drl.workload import TaskSpec

RUN_S = 5.0
"""Seconds of each training that is run, and the least of the budget that must be left for one."""

BEST = 2
"""Divisions that are run beside TCG_EX."""

SHOWN = 3
"""Further divisions that the reasons list."""


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
    """Measure, divide, run the best. The arguments are those of `profiler.measured_plan.plan_here`.

    Nothing is kept of the measurements, so all are `fresh`.

    Raises:
        NoFeasiblePlanError: if there are GPUs, or fewer than two cores to divide.
        LayoutMismatchError: if a core is in use.
        UsageError: if it is for a cluster, or not for PPO.
        EndedAtOnce: at a signal, also while a training runs.
    """
    ppo_of(config)
    if cluster is not None:
        instead = "give a --profile of each kind of machine (gmi-drl profile --template workers) in place of --budget"
        raise UsageError(f"this machine cannot be measured in place of a cluster for {WORKERS.name}: {instead}")
    cut = _cut_of(grid, node)
    budget = budget_of(seconds, task, config, node, tell)
    rates = measured(task, config, node, cut, budget)
    splits = worker_splits(rates, cut.gmis_per_gpu)
    why = [*remarks, rates_told(rates), *(f"by these {one.described}" for one in splits[: BEST + SHOWN])]
    for line in why[len(remarks) :]:
        tell(line)
    ran, late = _run_all(task, config, node, cut, splits[:BEST], budget, tell)
    best = max(splits[:BEST], key=lambda one: (ran.get(one.described, 0.0), one.expected))
    told = [f"chosen: {best.described}", _compared(ran, best, rates, cut), *late]
    projection = Projection(measured=True, steps_per_second=ran.get(best.described, best.expected))
    layout = layout_of(task, node, cut, best, projection, [*why, *told])
    for line in told:
        tell(line)
    return Plan(layout, horizon=config.learner.horizon, learner=config.learner.kind)


def layout_of(
    task: TaskSpec, node: Node, cut: Cut, split: WorkerSplit, projection: Projection, why: Sequence[str]
) -> Layout:
    """The layout of a division: actors on the first cores, then policy workers, then trainers."""
    even = WORKERS.lay_out(task, node, cut)
    acts: tuple[Role, ...] = ("simulator",) if split.policies else ("simulator", "agent")
    answers: tuple[Role, ...] = ("agent",)
    trains: tuple[Role, ...] = ("trainer",)
    device = even.devices[0]
    kinds = [acts] * split.actors + [answers] * split.policies + [trains] * split.trainers

    def given(gmi: GMI) -> GMI:
        sizes = {"num_env": cut.num_env, "ring": split.ring} if kinds[gmi.id] == acts else {"num_env": 0}
        return gmi.model_copy(update={"roles": kinds[gmi.id], **sizes})

    trainers = [[gmi.id for gmi in device.gmis if kinds[gmi.id] == trains]]
    return even.model_copy(
        update={
            "devices": (device.model_copy(update={"gmis": tuple(map(given, device.gmis))}),),
            "groups": all_in_one(trainers, WORKERS.usual(trainers, node, cut.backend)),
            "streams": Streams() if split.policies else None,
            "projection": projection,
            "made_for": signature_of(node),
            "reasons": tuple(why),
        }
    )


def run(layout: Layout, config: RunConfig, seconds: float) -> float:
    """Steps/s that trainers learn from, in a training of some seconds. Its first row is left out.

    Raises:
        GmiError: if it fails, or has too few rows.
        EndedAtOnce: if a signal has ended it.
    """
    rows = list[float]()
    short = config.model_copy(
        update={"iterations": 10**6, "time_limit_s": seconds, "writers": (), "checkpoint_every_s": None}
    )
    with temporary_folder("gmi-drl-plan-") as path:
        folder = RunFolder(path, stays=False)
        folder.create()
        outcome = train(resolve(layout, short, folder), on_row=lambda row: rows.append(row["steps_per_second"]))
    if outcome.signal is not None:
        raise EndedAtOnce(outcome.signal)
    if len(rows) < 2:
        raise GmiError(f"it has done {len(rows)} updates in {seconds:g} s, 2 are needed: give fewer with --num-env")
    return float(median(rows[1:]))


def _cut_of(grid: Grid, node: Node) -> Cut:
    """The cut with a core for each GMI, and the middle number of environments.

    If the grid has one number of GMIs, that was asked for.
    """
    if node.num_gpus:
        raise NoFeasiblePlanError(
            f"{WORKERS.name} is planned for cores, and {node.name} has GPUs: hide them, or cut evenly (--budget 0)"
        )
    sizes, (_, cores) = {cut.gmis_per_gpu for cut in grid}, devices_of(node)
    if max(sizes) < 2:
        raise NoFeasiblePlanError(f"{node.name} has no room for an actor and a trainer: {more_gmis(WORKERS.name, 2)}")
    cuts = sorted(cut for cut in grid if cut.gmis_per_gpu == max(sizes))
    middle = cuts[len(cuts) // 2]
    return middle if len(sizes) == 1 else Cut(cores, middle.num_env, middle.backend)


def _run_all(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    cut: Cut,
    splits: Sequence[WorkerSplit],
    budget: Budget,
    tell: Callable[[str], None],
) -> tuple[dict[str, float], list[str]]:
    """Steps/s of TCG_EX and of these divisions, by what they are; a sentence if the budget is too short for some."""
    layouts = {TCG_EX.name: TCG_EX.lay_out(task, node, cut)}
    layouts |= {one.described: layout_of(task, node, cut, one, Projection(measured=False), ()) for one in splits}
    ran = dict[str, float]()
    for tried, (name, layout) in enumerate(layouts.items()):
        if budget.left_s < RUN_S:
            return ran, [f"{tried} of {len(layouts)} layouts were tried: give more with --budget"]
        try:
            ran[name] = run(layout, config, RUN_S)
            tell(f"{name}: ran at {human_count(ran[name])} steps/s")
        except GmiError as error:
            tell(f"{name}: did not run: {str(error).splitlines()[0]}")
    return ran, []


def _compared(ran: dict[str, float], best: WorkerSplit, rates: WorkerRates, cut: Cut) -> str:
    """A sentence that says how the choice compares with TCG_EX on the same cores."""
    has_run = TCG_EX.name in ran and best.described in ran
    one = ran[TCG_EX.name] if has_run else cut.gmis_per_gpu * rates.together
    ours = ran[best.described] if has_run else best.expected
    how = "each ran by itself" if has_run else "as expected, not run"
    text = f"{TCG_EX.name} on the same cores {human_count(one)} steps/s, workers {human_count(ours)} ({how})"
    return f"{text}: take {TCG_EX.name}, it is faster here" if one > ours else text
