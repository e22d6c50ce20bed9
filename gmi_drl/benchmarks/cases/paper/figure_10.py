"""The paper's Figure 10: training speed and memory of one GMI by its number of environments."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import CURVES, DOUBLINGS, Case, Sample, Side, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cores import PURPOSE
from gmi_drl.units import GIB

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.hardware.node import Node
    from gmi_drl.profiler.session import Session
    from gmi_drl.profiler.sessions import Sessions

TASKS = ("ant", "humanoid")
NUM_ENVS, QUICK_NUM_ENVS = (512, 1024, 2048, 4096, 8192), (64, 128)
SECONDS, QUICK_SECONDS = 6.0, 0.5


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """One process per task on the same device, one working at a time; on a GPU with CUDA graphs and without."""
    from gmi_drl.config.run_config import default_config
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.profiler.sessions import Sessions
    from gmi_drl.workload import TASK_SPECS

    node = this_node()
    solos: dict[str, Session] = {}
    for task in TASKS:
        config = default_config(TASK_SPECS[task])
        solos[task] = _solo(task, config, node)
        if node.gpus is not None:
            solos[f"{task}, no graphs"] = _solo(task, config.model_copy(update={"cuda_graphs": False}), node)
    with Sessions(solos, PURPOSE) as sessions:
        yield {name: _side(sessions, name, quick) for name in solos}


def _solo(task: str, config: "RunConfig", node: "Node") -> "Session":
    """The session of one GMI that has a whole device."""
    from gmi_drl.layout.cut import Cut
    from gmi_drl.profiler.session import Session
    from gmi_drl.templates import TCG_EX
    from gmi_drl.workload import TASK_SPECS

    whole = TCG_EX.lay_out(TASK_SPECS[task], node, Cut(1, 1))
    layout = whole.model_copy(update={"devices": whole.devices[:1], "groups": TCG_EX.groups([[0]], node)})
    return Session(layout, config)


def _side(sessions: "Sessions[str]", name: str, quick: bool) -> Side:
    num_envs, seconds = (QUICK_NUM_ENVS, QUICK_SECONDS) if quick else (NUM_ENVS, SECONDS)

    def measure() -> Sample:
        """Steps per second at the best number of environments; the curves have all numbers."""
        measured = [sessions[name].measure(num_env, seconds) for num_env in num_envs]
        speeds = [one.steps_per_second for one in measured]
        memory_gib = [one.memory_bytes / GIB for one in measured]
        curves = {f"environments {DOUBLINGS}": list(num_envs), "peak memory, GiB": memory_gib, "steps/s": speeds}
        best = max(measured, key=lambda one: one.steps_per_second)
        return Sample(
            best.steps_per_second, {"num_env": best.num_env, "memory_bytes": best.memory_bytes, CURVES: curves}
        )

    return measure


CASE = Case(
    name="figure_10",
    claim="Synchronous training of Ant and Humanoid by one GMI on a whole device, with 512 to 8192 environments: "
    "environment steps per second at the best number, and the peak memory of the process.",
    unit="steps/s",
    open=open_sides,
    obstacle=lambda: requirements.package("mujoco", "mujoco"),
    reference="Figure 10 of the paper, on an A100: from 4096 to 8192 environments throughput grows slightly, memory "
    "sharply",
    limits="On a CPU the memory is that of the process, torch and MuJoCo included.",
    compared=False,
)
