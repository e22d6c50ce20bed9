"""Confirms candidates: runs all GMIs of each together, interleaved with one GMI per device and as many environments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import GmiError
from gmi_drl.gmi import ProcessBackend
from gmi_drl.gmi.inventory import visible_gpus
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import SpeedsByBackend
from gmi_drl.layout.backends import PROCESS, coexist
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import Layout
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.points import MEASURE_S, not_runnable, point_of, refusal
from gmi_drl.profiler.session import PATIENCE_S, Measured, Session
from gmi_drl.profiler.sessions import Sessions
from gmi_drl.scheduler.profile import ProfilePoint
from gmi_drl.templates import TCG_EX, Template
from gmi_drl.workload import TaskSpec

MOST_ROUNDS = 5


@dataclass(frozen=True)
class Confirmation:
    """A layout whose GMIs ran together: the point of one GMI, and steps per second of all (median of the rounds)."""

    point: ProfilePoint
    steps_per_second: float


def rivals(cuts: Sequence[Cut]) -> list[Cut]:
    """Each cut, followed by the one with one GMI per device and as many environments in all; without duplicates.

    That GMI has its device plainly, since by MPS it would be slower. It is cut by the same backend only where plain
    processes cannot use a GPU beside that backend: on MIG instances, and in compute mode exclusive process.
    """
    is_open = not any(ProcessBackend.obstacle(gpu, 2) for gpu in visible_gpus())

    def rival(cut: Cut) -> Cut:
        return replace(cut.uncut, backend=PROCESS.name) if is_open and coexist([cut.backend]) else cut.uncut

    return list(dict.fromkeys(one for cut in cuts for one in (cut, rival(cut))))


def confirm(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    cuts: Sequence[Cut],
    budget: Budget,
    on_round: Callable[[int, Cut, Measured], None] = lambda number, cut, measured: None,
    *,
    speeds: SpeedsByBackend | None = None,
    template: Template = TCG_EX,
) -> list[Confirmation]:
    """Run the layouts of `cuts` in turn, in as many rounds as the budget allows: at least 1, at most `MOST_ROUNDS`.

    If their backends allow it, all layouts are alive on the same devices, and one runs at a time. A layout that its
    backend refuses, or that fails, dies or hangs, gets a point that is not runnable. The reduction is the one that a
    plan with the same `speeds` takes.

    Raises:
        LayoutMismatchError: if a device is in use.
        GmiError: if this machine lacks something (`exit_code` 4), since no other layout would run either.
    """
    deadline_s = MEASURE_S + PATIENCE_S + budget.left_s
    crossing = partial(template.communication, task, config.learner, node, speeds=speeds)
    layouts = {cut: template.lay_out(task, node, cut, communication=crossing(cut.backend)) for cut in cuts}
    failed = [not_runnable(cut, why) for cut, layout in layouts.items() if (why := refusal(node, layout))]
    for point in failed:
        del layouts[point.cut]
    rounds: dict[Cut, list[Measured]] = {cut: [] for cut in layouts}
    sessions_by_cut = {cut: Session(layout, config) for cut, layout in layouts.items()}
    with Sessions(sessions_by_cut, "gmi-drl plan", budget) as sessions:
        for number in range(MOST_ROUNDS):
            before_s = budget.left_s
            for cut in list(rounds) if number % 2 == 0 else list(reversed(rounds)):
                try:
                    measured = sessions[cut].measure(cut.num_env, MEASURE_S, deadline_s=deadline_s)
                except GmiError as error:
                    if error.exit_code != GmiError.exit_code:
                        raise
                    sessions.close(cut)  # if it hangs, it would go on using the cores
                    del rounds[cut]
                    failed.append(not_runnable(cut, f"all together: {str(error).splitlines()[0]}"))
                    continue
                rounds[cut].append(measured)
                on_round(number, cut, measured)
            if budget.left_s <= before_s - budget.left_s:  # another round would take as long
                break
    ran = [_summary(cut, some, layouts[cut]) for cut, some in rounds.items()]
    return ran + [Confirmation(point, 0.0) for point in failed]


def _summary(cut: Cut, rounds: Sequence[Measured], layout: Layout) -> Confirmation:
    rounds = [measured for measured in rounds if not measured.is_disturbed] or rounds
    typical = sorted(rounds, key=lambda measured: measured.steps_per_second)[len(rounds) // 2]
    speed = median(measured.steps_per_second for measured in rounds)
    return Confirmation(point_of(typical, cut, layout), speed)
