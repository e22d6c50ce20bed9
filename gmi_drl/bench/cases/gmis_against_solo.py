"""Synchronous PPO on Ant: one GMI per core against one process with all cores, at its best."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from gmi_drl.bench.case import Case, Sides
from gmi_drl.bench.cases import needs
from gmi_drl.bench.cases.sessions import alive, training_side

if TYPE_CHECKING:
    from gmi_drl.layout import Layout

OURS = "2 GMIs x 1 core"
BEST_SOLO = "solo, 2 threads, GOMP_SPINCOUNT 20000"
DEFAULTS = "solo, 2 threads, defaults"
ONE_THREAD = "solo, 1 thread"
SECONDS, QUICK_SECONDS = 6.0, 2.0
TOTAL = 512
TOTALS = (256, 512, 1024, 2048, 4096)
"""Environments in all among which solo's best is looked for."""


def layouts() -> "Mapping[str, Layout]":
    """Two cores as two GMIs, and as one with 1 or 2 torch threads (the physics of all uses both cores)."""
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.layout import Layout
    from gmi_drl.scheduler import even_layout
    from gmi_drl.workload import TASK_SPECS

    node = this_node()
    pair = node.model_copy(update={"cpu": node.cpu.model_copy(update={"cores": 2, "siblings": None})})

    def cut(gmis: int, threads: int | None = None) -> Layout:
        plain = even_layout(TASK_SPECS["ant"], pair, gmis, TOTAL // gmis).model_dump()
        for device in plain["devices"]:
            device["gmis"] = tuple({**gmi, "threads": threads} for gmi in device["gmis"])
        return Layout.model_validate(plain)

    return {OURS: cut(2), BEST_SOLO: cut(1), DEFAULTS: cut(1), ONE_THREAD: cut(1, threads=1)}


def opener(find_best: bool) -> Callable[[bool], AbstractContextManager[Sides]]:
    """Sides with `TOTAL` environments in all, or with as many as solo is fastest with."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        from gmi_drl.config import default_config
        from gmi_drl.workload import TASK_SPECS

        seconds = QUICK_SECONDS if quick else SECONDS
        with alive(layouts(), default_config(TASK_SPECS["ant"]), {DEFAULTS: None}) as sessions:
            total = TOTAL
            if find_best:
                speeds = {total: sessions[BEST_SOLO].measure(total, seconds).steps_per_second for total in TOTALS}
                total = max(speeds, key=speeds.__getitem__)
            yield {
                name: training_side(session, total // len(session.layout.gmis), seconds)
                for name, session in sessions.items()
            }

    return open_sides


def case(name: str, claim: str, *, find_best: bool, guard: float | None) -> Case:
    """The case with one number of environments."""
    return Case(
        name=name,
        claim=claim,
        unit="steps/s",
        open=opener(find_best),
        obstacle=lambda: needs.cores(2) or needs.package("mujoco", "mujoco"),
        reference="a bare prototype: 1.2 to 1.4x solo's defaults, 1.06 to 1.12x solo with GOMP_SPINCOUNT 20000",
        limits="GOMP_SPINCOUNT does nothing for one thread, so that is one side. The paper's 1.86x is of A100s.",
        repeats=7,
        guard=guard,
    )


CASES = (
    case(
        "gmis_512",
        "Training Ant by PPO with 512 environments in all: two GMIs of one core, against one process with both.",
        find_best=False,
        guard=0.6,
    ),
    case(
        "gmis_at_solos_best",
        "The same with as many environments as one process with both cores is fastest with.",
        find_best=True,
        guard=None,
    ),
)
