"""The speed of the six tasks' physics alone, by the number of environments."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import CURVES, DOUBLINGS, Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cores import all_cores
from gmi_drl.gmi.inventory import allowed_cores
from gmi_drl.workload import TASK_SPECS

if TYPE_CHECKING:
    import torch

    from gmi_drl.tasks.sim import Sim

NUM_ENVS, QUICK_NUM_ENVS = tuple(2**power for power in range(7, 15)), (8, 16)
WARM_UP_STEPS, STEPS, QUICK_STEPS = 10, 20, 2
"""Steps counted from the start of the episodes, so that robots are in the same phase at every number."""


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """A side for each task, on all cores, or on a GPU by MuJoCo Warp if installed, with CUDA graphs and without."""
    import torch

    sides = {task: partial(measure, task, quick) for task in TASK_SPECS}
    if torch.cuda.is_available():
        sides |= {f"{task}, no graphs": partial(measure, task, quick, cuda_graphs=False) for task in TASK_SPECS}
    with all_cores():
        yield sides


def measure(task: str, quick: bool, cuda_graphs: bool = True) -> Sample:
    """Control steps per second at the best number of environments; the curve has all numbers."""
    num_envs = QUICK_NUM_ENVS if quick else NUM_ENVS
    speeds = [speed(task, num_env, QUICK_STEPS if quick else STEPS, cuda_graphs) for num_env in num_envs]
    curves = {f"environments {DOUBLINGS}": list(num_envs), "steps/s": speeds}
    best = max(speeds)
    return Sample(best, {"num_env": num_envs[speeds.index(best)], CURVES: curves})


def speed(task: str, num_env: int, steps: int, cuda_graphs: bool = True) -> float:
    """Control steps per second of `num_env` environments with random actions, without observations, rewards, resets."""
    import torch

    from gmi_drl.tasks import TASKS, make_sim

    definition, device = TASKS[task], torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with closing(make_sim(definition, num_env, str(device), len(allowed_cores()), cuda_graphs=cuda_graphs)) as sim:
        everywhere = torch.ones(num_env, dtype=torch.bool, device=device)
        noise = 2 * torch.rand(num_env, definition.reset_noise, device=device) - 1
        for name, value in definition.reset_state(noise).items():
            sim.set(name, everywhere, value)
        sim.forward()
        actions = 2 * torch.rand(WARM_UP_STEPS + steps, num_env, definition.spec.action.size, device=device) - 1
        for action in actions[:WARM_UP_STEPS]:
            _step(sim, task, action)
        started = _now(device)
        for action in actions[WARM_UP_STEPS:]:
            _step(sim, task, action)
        return steps * num_env / (_now(device) - started)


def _step(sim: "Sim", task: str, action: "torch.Tensor") -> None:
    from gmi_drl.tasks import TASKS

    definition = TASKS[task]
    sim.step(definition.control({name: sim.get(name) for name in definition.fields}, action))


def _now(device: "torch.device") -> float:
    """The clock's seconds when the device has finished its work."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


CASE = Case(
    name="physics",
    claim="Physics alone: control steps per second of each task with random actions, with 128 to 16384 environments in "
    "one process; the speed at the best number.",
    unit="steps/s",
    open=open_sides,
    obstacle=lambda: requirements.package("mujoco", "mujoco"),
    limits="Steps 11 to 30 of an episode, so legged robots are landing or about to fall and hands still hold their "
    "block. On a GPU a task refreshes all environments once more in every step, for new episodes, which is not "
    "included.",
    compared=False,
)
