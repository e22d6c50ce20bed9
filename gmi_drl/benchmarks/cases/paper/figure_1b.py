"""The paper's Figure 1(b): how little of a GPU is used by one process that trains by PPO."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.sessions import training_side
from gmi_drl.benchmarks.cases.common.shared_gpu import PLAIN, shared
from gmi_drl.benchmarks.cores import PURPOSE
from gmi_drl.errors import MachineError
from gmi_drl.workload import TASK_SPECS

if TYPE_CHECKING:
    from gmi_drl.profiler.sessions import Sessions

NUM_ENV, QUICK_NUM_ENV = 4096, 16
SECONDS, QUICK_SECONDS = 3.0, 0.05


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """One process for each task; one trains at a time."""
    from gmi_drl.config.run_config import default_config
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.profiler.session import Session
    from gmi_drl.profiler.sessions import Sessions
    from gmi_drl.templates import TCG_EX

    node = this_node()
    cuts = {task: shared(task, node, TCG_EX, 1, PLAIN) for task in TASK_SPECS}
    solos = {task: Session(layout, default_config(TASK_SPECS[task])) for task, layout in cuts.items()}
    with Sessions(solos, PURPOSE) as sessions:
        yield {task: partial(activity, sessions, task, quick) for task in TASK_SPECS}


def activity(sessions: "Sessions[str]", task: str, quick: bool) -> Sample:
    """The share of SMs that had work, in percent; details have occupancy, bandwidth, power and speed."""
    num_env, seconds = (QUICK_NUM_ENV, QUICK_SECONDS) if quick else (NUM_ENV, SECONDS)
    sample = training_side(sessions, task, num_env, seconds)()
    if "sm_util" not in sample.details:
        raise MachineError(f"NVML gave no SM activity (sm_util) while {task} was trained: is GPM supported here?")
    return Sample(sample.details["sm_util"], {**sample.details, "steps_per_second": sample.value})


CASE = Case(
    name="figure_1b",
    claim=f"The share of a GPU's SMs that have work while one process trains with {NUM_ENV} environments by PPO.",
    unit="%",
    open=open_sides,
    obstacle=lambda: requirements.warp_on_gpu() or requirements.gpm(),
    reference="Figure 1(b) of the paper, three tasks in Isaac Gym on an A100: always below 50 %, 32 % on average",
    limits="SM activity by GPM: an SM with one warp counts as much as a full one.",
    compared=False,
)
