"""Measures the rates of agents and of trainers on this machine: each side alone, and both at once."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import GmiError, UsageError
from gmi_drl.gmi import claimed
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import Device, Layout
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.identical_machines import Machines
from gmi_drl.profiler.measured_plan import explore
from gmi_drl.profiler.session import PATIENCE_S, Session, probe_of
from gmi_drl.scheduler.agent_trainer_split import Division, division_of
from gmi_drl.scheduler.exploration import Grid, by_division
from gmi_drl.scheduler.profile import ProfilePoint
from gmi_drl.templates import TCG
from gmi_drl.workload import TaskSpec

ACTING = 0.7
"""Part of the budget for GMIs that act. The rest is for those that learn, which start without environments."""

MEASURE_S = 1.0
"""Seconds of updates of each size."""

AT_ONCE_S = 3.0
"""Seconds of both sides at once, which are kept of the budget. Agents make their environments within them."""

LEFT_S = 1.0
"""Least of `AT_ONCE_S` that must be left in the end: a size may take longer than predicted from the one before."""

BESIDE = 0.8
"""Part of the time during which both sides must have run at once: in the rest one had the machine alone."""

CLAIM = "gmi-drl is measuring"


@dataclass(frozen=True)
class Rates:
    """The rates of one GMI of each cut while the other side is idle.

    Args:
        acting: Points of GMIs that simulate and act.
        learning: Steps per second that a GMI of a cut can learn from, as far as there was time.
    """

    acting: Sequence[ProfilePoint]
    learning: Mapping[Cut, float]


def rates_here(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    grid: Grid,
    budget: Budget,
    *,
    fresh: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Rates:
    """Measure a GMI that acts, then one that learns, for the cuts of a grid.

    The arguments are those of `profiler.measured_plan.explore`, with the budget for both.

    Raises:
        LayoutMismatchError: if a device is in use.
        GmiError: if a GMI that learns fails.
    """
    found = explore(task, config, node, grid, budget.part(ACTING), template=TCG, fresh=fresh, tell=tell)
    acting = [point for point in found.profile.points if point.runnable]
    return Rates(acting, _learning(task, config, node, [point.cut for point in acting], budget, tell))


def _learning(
    task: TaskSpec, config: RunConfig, node: Node, cuts: Grid, budget: Budget, tell: Callable[[str], None]
) -> dict[Cut, float]:
    """Steps per second that one GMI of each cut can learn from: at least one cut, others as the budget allows."""
    learning: dict[Cut, float] = {}
    next_s, probe = MEASURE_S, trainer_probe_of(config)

    def has_time() -> bool:
        return not learning or budget.left_s >= next_s + AT_ONCE_S

    for alike in by_division(cuts):
        if not has_time():
            break
        layout = _alone(task, node, alike[0])
        with claimed([layout], CLAIM) as claim, closing(Session(layout, config, role=probe)) as session:
            budget.start(session, claim)
            for cut in sorted(alike, key=lambda cut: cut.num_env):
                if not has_time():
                    break
                started = time.monotonic()
                measured = session.measure(cut.num_env, MEASURE_S, deadline_s=PATIENCE_S)
                next_s = time.monotonic() - started
                learning[cut] = measured.steps_per_second
                tell(f"{cut.described}: one GMI can learn from {measured.steps_per_second:.0f} steps/s")
    return learning


def trainer_probe_of(config: RunConfig) -> str:
    """`module:class` of what measures a GMI that learns.

    Raises:
        UsageError: if the learner has none.
    """
    learner = LEARNERS.find(config.learner.kind)
    if learner.trainer_probe is None:
        remedy = "write the layout by hand, or let `gmi-drl train` make it"
        raise UsageError(f"trainers of {learner.name} on GMIs of their own cannot be measured: {remedy}")
    return learner.trainer_probe


def _alone(task: TaskSpec, node: Node, cut: Cut) -> Layout:
    """The layout of one GMI with its part of the first device."""
    whole = TCG.lay_out(task, node, cut)
    device = whole.devices[0]
    first = Device(kind=device.kind, index=device.index, gmis=device.gmis[:1])
    return Layout(task=whole.task, template=whole.template, backend=whole.backend, devices=(first,))


def both_at_once(way: Division, machines: Machines, budget: Budget) -> tuple[Division, str]:
    """Run agents and trainers of a division at once: they share the memory's bandwidth, and perhaps cores.

    Returns:
        The division with its confirmed speed, or unchanged if it could not be measured; and a sentence with the rates
        of both sides, or with the reason why they were not measured.

    Raises:
        LayoutMismatchError: if a device is in use.
    """
    left_s = budget.left_s
    if left_s < LEFT_S:
        left = f"{left_s:.1f} s of the budget were left, {AT_ONCE_S:.0f} s are wanted: give more with --budget"
        return way, f"both sides were not run at once, so their speed together is only predicted: {left}"
    layout = TCG.lay_out(machines.task, machines.node, way.cut)
    acts = probe_of(layout, machines.config)
    learns = trainer_probe_of(machines.config)
    roles = {gmi.id: acts if number < way.agents else learns for number, gmi in enumerate(layout.gmis)}
    with claimed([layout], CLAIM) as claim, closing(Session(layout, machines.config, role=roles)) as session:
        try:
            budget.start(session, claim)
            session.measure(way.cut.num_env, 0.0, deadline_s=PATIENCE_S)  # first calls are slower than later ones
            rows = session.measure(way.cut.num_env, AT_ONCE_S, deadline_s=PATIENCE_S).rows
        except GmiError as error:
            return way, f"both sides at once did not run: {str(error).splitlines()[0]}"
    if not _ran_beside(rows):
        return way, "both sides ran, but overlapped too briefly to measure their speed together"
    ran = _division_by(rows, way, machines)
    return replace(way, confirmed=ran.expected), f"both sides at once: {ran.described}"


def _ran_beside(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the GMIs of these rows ran at the same time for at least `BESIDE` of it."""
    beside_s: float = min(row["ended_s"] for row in rows) - max(row["began_s"] for row in rows)
    longest_s: float = max(row["ended_s"] - row["began_s"] for row in rows)
    return beside_s >= BESIDE * longest_s


def _division_by(rows: Sequence[Mapping[str, Any]], way: Division, machines: Machines) -> Division:
    """The division with the rates in the rows of its GMIs, agents first."""
    cut, learner = way.cut, machines.config.learner
    speeds = [cut.num_env * learner.horizon / row["iteration_s"] for row in rows]
    acting, learning = fmean(speeds[: way.agents]), fmean(speeds[way.agents :])
    point = ProfilePoint(
        gmis_per_gpu=cut.gmis_per_gpu, num_env=cut.num_env, backend=cut.backend, runnable=True, steps_per_second=acting
    )
    return division_of(point, learning, len(rows), way.trainers, learner, machines.waits)
