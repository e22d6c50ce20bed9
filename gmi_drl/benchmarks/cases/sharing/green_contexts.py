"""An experiment: two simulators at once on one GPU, on halves of its SMs in one process, or in two under MPS.

Green contexts will become a backend only if they are faster here.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.sessions import training_side
from gmi_drl.benchmarks.cases.common.shared_gpu import LABELS, PLAIN, shared, those_that_run, ways
from gmi_drl.benchmarks.cases.sharing import green_context_split
from gmi_drl.benchmarks.cores import PURPOSE

if TYPE_CHECKING:
    from gmi_drl.hardware.node import Node
    from gmi_drl.profiler.session import Session

TASK = "ant"
TOTAL, QUICK_TOTAL = 4096, 8
SECONDS, QUICK_SECONDS = 2.0, 0.05

ROLES = "gmi_drl.benchmarks.cases.sharing.green_context_roles"
IN_ONE_PROCESS = {
    "one simulator with all environments": "OneSimulator",
    "two, one after the other": "OneStream",
    "two on ordinary streams": "TwoStreams",
    "two on green contexts": "TwoParts",
}
ON_CORES = ("one simulator with all environments", "two, one after the other")
"""Sides that need no streams, and so run without a GPU."""


def sessions(node: "Node", ways: tuple[str, ...]) -> "Mapping[str, Session]":
    """Sessions by side: one process for each of `IN_ONE_PROCESS` (of `ON_CORES` without a GPU), two for each MPS way.

    Args:
        node: This machine.
        ways: The ways to share a device here; of these only those of MPS count.
    """
    from gmi_drl.config.run_config import default_config
    from gmi_drl.profiler.session import Session
    from gmi_drl.templates import TCG
    from gmi_drl.workload import TASK_SPECS

    config = default_config(TASK_SPECS[TASK])
    alone = shared(TASK, node, TCG, 1, PLAIN)
    names = IN_ONE_PROCESS if node.num_gpus else dict.fromkeys(ON_CORES)
    found = {name: Session(alone, config, role=f"{ROLES}:{IN_ONE_PROCESS[name]}") for name in names}
    under_mps = [way for way in ways if way != PLAIN]
    return found | {
        f"two processes under {LABELS[way]}": Session(
            shared(TASK, node, TCG, 2, way), config, role=f"{ROLES}:OneSimulator"
        )
        for way in under_mps
    }


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """Sides with the same number of environments in all; those that do not run are left out."""
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.profiler.sessions import Sessions

    total, seconds = (QUICK_TOTAL, QUICK_SECONDS) if quick else (TOTAL, SECONDS)
    found = sessions(this_node(), ways())
    with Sessions(found, PURPOSE) as alive:
        sides = {
            name: training_side(alive, name, total // len(session.layout.gmis), seconds)
            for name, session in found.items()
        }
        with those_that_run(sides) as running:
            yield running


CASE = Case(
    name="green_contexts",
    claim=f"Physics of {TOTAL} environments of Ant on one GPU: two simulators in one process on disjoint halves of the "
    "SMs (green contexts), on ordinary streams, one after the other, and in two processes under MPS, against one "
    "simulator with all environments.",
    unit="steps/s",
    open=open_sides,
    obstacle=lambda: requirements.warp_on_gpu() or green_context_split.missing(),
    limits="An experiment, not a backend. Actions are constant, and nothing is observed or learnt. One Python thread "
    "launches both simulators' graphs.",
    is_baseline_first=True,
)
