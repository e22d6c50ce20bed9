"""Synchronous PPO on Ant: one GMI per core, against one process with all cores."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.sessions import of_layouts, training_side
from gmi_drl.benchmarks.cases.common.two_cores import on_two_cores

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout

OURS = "2 GMIs x 1 core"
BEST_SOLO = "solo, 2 threads, GOMP_SPINCOUNT 20000"
DEFAULTS = "solo, 2 threads, defaults"
ONE_THREAD = "solo, 1 thread"
SECONDS, QUICK_SECONDS = 6.0, 2.0
TOTAL = 512
TOTALS = (256, 512, 1024, 2048, 4096)
"""Environments in all among which the best number for one process is searched."""


def layouts() -> "Mapping[str, Layout]":
    """Two cores as two GMIs, and as one GMI with 1 or 2 torch threads (its physics always uses both cores)."""
    from gmi_drl.layout.cut import Cut
    from gmi_drl.templates import TCG_EX

    def cut(gmis: int, threads: int | None = None) -> "Layout":
        return on_two_cores(TCG_EX, Cut(gmis, TOTAL // gmis), threads)

    return {OURS: cut(2), BEST_SOLO: cut(1), DEFAULTS: cut(1), ONE_THREAD: cut(1, threads=1)}


def opener(find_best: bool) -> Callable[[bool], AbstractContextManager[Sides]]:
    """The opener of the sides: with `TOTAL` environments in all, or with the best number for one process."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        from gmi_drl.config.run_config import default_config
        from gmi_drl.workload import TASK_SPECS

        seconds, config, sides = QUICK_SECONDS if quick else SECONDS, default_config(TASK_SPECS["ant"]), layouts()
        total = _solos_best(sides[BEST_SOLO], config, seconds) if find_best else TOTAL
        with of_layouts(sides, config, {DEFAULTS: {"GOMP_SPINCOUNT": None}}) as sessions:
            yield {
                name: training_side(sessions, name, total // len(layout.gmis), seconds)
                for name, layout in sides.items()
            }

    return open_sides


def _solos_best(solo: "Layout", config: "RunConfig", seconds: float) -> int:
    """The number of environments with which one process is fastest, measured in a process of its own."""
    with of_layouts({BEST_SOLO: solo}, config) as sessions:
        speeds = {total: sessions[BEST_SOLO].measure(total, seconds).steps_per_second for total in TOTALS}
    return max(speeds, key=speeds.__getitem__)


def _obstacle() -> str | None:
    spins = "GOMP_SPINCOUNT is set, but sides need different values: unset it"
    return requirements.simulation_on_cores(2) or (spins if "GOMP_SPINCOUNT" in os.environ else None)


def case(name: str, claim: str, *, find_best: bool, guard: float | None = None, floor: float | None = None) -> Case:
    """The case with one number of environments."""
    return Case(
        name=name,
        claim=claim,
        unit="steps/s",
        open=opener(find_best),
        obstacle=_obstacle,
        reference="a bare prototype: 1.2 to 1.4x solo's defaults, 1.06 to 1.12x solo with GOMP_SPINCOUNT 20000",
        limits="GOMP_SPINCOUNT has no effect on one thread, so it has one side. The paper's 1.86x is for A100s.",
        repeats=7,
        guard=guard,
        floor=floor,
    )


CASES = (
    case(
        "gmis_512",
        "Training Ant by PPO with 512 environments in all: two GMIs of one core, against one process with both.",
        find_best=False,
        guard=0.6,
        floor=10,
    ),
    case(
        "gmis_at_solos_best",
        "The same with as many environments as one process with both cores is fastest with.",
        find_best=True,
    ),
)
