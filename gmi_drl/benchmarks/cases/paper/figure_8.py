"""The paper's Figure 8: two and three serving processes on one GPU under MPS, against plain sharing (Direct-Share)."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.sessions import of_layouts, training_side
from gmi_drl.benchmarks.cases.common.shared_gpu import CAPPED_MPS, MPS, PLAIN, shared
from gmi_drl.workload import TASK_SPECS

PROCESSES = (2, 3)
NUM_ENV, QUICK_NUM_ENV = 4096, 16
SECONDS, QUICK_SECONDS = 3.0, 0.05

SIDES = {"Direct-Share": PLAIN, "MPS": MPS, "capped MPS": CAPPED_MPS}


def opener(task: str, processes: int) -> Callable[[bool], AbstractContextManager[Sides]]:
    """The opener of the sides: `processes` serving processes, by each way to share the GPU."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        from gmi_drl.config.run_config import default_config
        from gmi_drl.gmi.inventory import this_node
        from gmi_drl.templates import TCG

        num_env, seconds = (QUICK_NUM_ENV, QUICK_SECONDS) if quick else (NUM_ENV, SECONDS)
        cuts = {name: shared(task, this_node(), TCG, processes, way) for name, way in SIDES.items()}
        with of_layouts(cuts, default_config(TASK_SPECS[task])) as sessions:
            yield {name: training_side(sessions, name, num_env, seconds) for name in cuts}

    return open_sides


def case(task: str, processes: int) -> Case:
    """The case for one task."""
    return Case(
        name=f"figure_8_{task}_{processes}",
        claim=f"Serving a policy of {task} by {processes} processes on one GPU, with {NUM_ENV} environments each: "
        "under MPS, capped and not, against plain sharing.",
        unit="steps/s",
        open=opener(task, processes),
        obstacle=lambda: requirements.warp_on_gpu() or requirements.mps() or requirements.cores(processes),
        reference="Figure 8 of the paper, on an A100: MPS and MIG are always above Direct-Share, MIG above MPS for "
        "Humanoid and Ball Balance, about equal for Ant",
        limits="Without the paper's third bar, MIG, because a case does not switch the MIG mode. `gmi-drl plan "
        "--backend mig` plans for it if it is on.",
        is_baseline_first=True,
    )


CASES = tuple(case(task, processes) for processes in PROCESSES for task in TASK_SPECS)
