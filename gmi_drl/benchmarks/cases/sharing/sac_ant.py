"""SAC on Ant: two GMIs, each with a ring of its own environments, against one with all of them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.sessions import of_layouts, training_side
from gmi_drl.benchmarks.cases.common.two_cores import on_two_cores

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout

OURS, ONE, ONE_THREAD = "2 GMIs x 1 core", "1 GMI, 2 threads", "1 GMI, 1 thread"
NUM_ENV = 64
"""Of all GMIs together."""

SECONDS, QUICK_SECONDS = 10.0, 0.5


def layouts() -> "Mapping[str, Layout]":
    """Two cores as two GMIs, and as one with 2 or 1 threads of torch (its physics always uses both cores)."""
    from gmi_drl.layout.cut import Cut
    from gmi_drl.templates import TCG_EX

    cuts = {OURS: (2, None), ONE: (1, None), ONE_THREAD: (1, 1)}
    return {name: on_two_cores(TCG_EX, Cut(gmis, NUM_ENV // gmis), threads) for name, (gmis, threads) in cuts.items()}


def config() -> "RunConfig":
    """SAC as it is for Ant."""
    from gmi_drl.config.run_config import default_config
    from gmi_drl.workload import TASK_SPECS

    return default_config(TASK_SPECS["ant"], "sac")


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """Iterations of `horizon` steps and their updates, of the same batch in all sides, from the first one on."""
    sides = layouts()
    with of_layouts(sides, config()) as sessions:
        yield {
            name: training_side(sessions, name, NUM_ENV // len(layout.gmis), QUICK_SECONDS if quick else SECONDS)
            for name, layout in sides.items()
        }


CASES = (
    Case(
        name="sac_ant",
        claim=f"SAC on Ant with {NUM_ENV} environments and an update of 256 steps after each step of all of them, on "
        "two cores: two GMIs, which draw half of each batch from their own rings and sum gradients, against one GMI.",
        unit="steps/s",
        open=open_sides,
        obstacle=lambda: requirements.simulation_on_cores(2),
        limits="Speed alone: updates begin with the first iteration, and returns are not compared.",
        repeats=5,
        guard=0.4,
        floor=4,
    ),
)
