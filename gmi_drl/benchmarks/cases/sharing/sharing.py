"""Whether sharing a GPU helps: several GMIs by plain sharing and under MPS, against one that has the GPU alone."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.sessions import of_layouts, training_side
from gmi_drl.benchmarks.cases.common.shared_gpu import (
    LABELS,
    PLAIN,
    cut_by,
    measure_speeds,
    shared,
    sizes_of,
    those_that_run,
    ways,
)

if TYPE_CHECKING:
    from gmi_drl.hardware.node import Node
    from gmi_drl.layout.layout import Layout

TASKS = ("ant", "humanoid", "shadow_hand")
SIZES = (1, 2, 4)
"""Numbers of GMIs. All sides live at once: 20 processes, which use about 30 GB of a GPU."""
TOTAL, QUICK_TOTAL = 8192, 16
"""Environments of all GMIs together."""
TOTALS, QUICK_TOTALS = (2048, 8192, 32768), (16, 32)
"""Environments among which the best number for one GMI is searched."""
SECONDS, QUICK_SECONDS = 1.5, 0.05

SOLO = "1 GMI"


def layouts(task: str, node: "Node", ways: tuple[str, ...]) -> "Mapping[str, Layout]":
    """The baseline of one GMI without sharing, then every number of GMIs by each way."""
    from gmi_drl.templates import TCG_EX

    cuts = [(size, way) for way in ways for size in sizes_of(way, SIZES, node)]
    return {_name(size, way): shared(task, node, TCG_EX, size, way) for size, way in cuts}


def _name(size: int, way: str) -> str:
    if (size, way) == (1, PLAIN):
        return SOLO
    return f"{size} GMI{'s' * (size > 1)}, {LABELS[way]}"


def opener(task: str, find_best: bool) -> Callable[[bool], AbstractContextManager[Sides]]:
    """The opener of the sides: with `TOTAL` environments in all, or with the best number for one GMI."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        from gmi_drl.config.run_config import default_config
        from gmi_drl.gmi.inventory import this_node
        from gmi_drl.workload import TASK_SPECS

        node, seconds = this_node(), QUICK_SECONDS if quick else SECONDS
        measure_speeds(node, [cut_by(way, 2).backend for way in ways()])
        cuts = layouts(task, node, ways())
        with of_layouts(cuts, default_config(TASK_SPECS[task])) as sessions:
            total = QUICK_TOTAL if quick else TOTAL
            if find_best:
                totals = QUICK_TOTALS if quick else TOTALS
                speeds = {num: sessions[SOLO].measure(num, seconds).steps_per_second for num in totals}
                total = max(speeds, key=speeds.__getitem__)
            sides = {
                name: training_side(sessions, name, total // len(layout.gmis), seconds) for name, layout in cuts.items()
            }
            with those_that_run(sides) as running:
                yield running

    return open_sides


def case(task: str, *, find_best: bool) -> Case:
    """The case for one task."""
    how_many = "as many environments in all as one GMI is fastest with" if find_best else f"{TOTAL} environments in all"
    return Case(
        name=f"sharing_{task}" + "_at_solos_best" * find_best,
        claim=f"Training {task} by PPO on one GPU with {how_many}: 1, 2 and 4 GMIs by plain sharing and under MPS, "
        "capped and not, against one GMI that has the GPU alone.",
        unit="steps/s",
        open=opener(task, find_best),
        obstacle=requirements.warp_on_gpu,
        reference="others' figures for inference: under MPS 2x on an H100, without it 1.03x or less",
        limits="On one GPU, with physics by MuJoCo Warp; each GMI has its share of the cores. All sides have the same "
        "number of environments in all, so their updates have the same number of samples.",
        is_baseline_first=True,
    )


CASES = tuple(case(task, find_best=find_best) for find_best in (False, True) for task in TASKS)
