"""The speed of a whole Ant step, against that of the physics alone."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sample, Side, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cores import one_core

if TYPE_CHECKING:
    from torch import Tensor

    from gmi_drl.tasks import Task

NUM_ENV = 512
STEPS, QUICK_STEPS = 20, 10
WARM_UP_STEPS, QUICK_WARM_UP_STEPS = 150, 40
# After the warm-up some robots have fallen and begun anew, so that every side has its usual share of contacts.


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """`Task.step` and two sides of bare physics, after a warm-up.

    Fallen robots of the bare sides are reset, untimed, because contacts decide what a step costs.
    """
    count, warm_up = (QUICK_STEPS, QUICK_WARM_UP_STEPS) if quick else (STEPS, WARM_UP_STEPS)
    from gmi_drl.tasks import make

    with one_core(), closing(make("ant", num_env=NUM_ENV)) as task:
        steps = {
            "task": task_step(task),
            "bare": bare_step("VEL"),
            "lean": bare_step("NONE"),
        }
        yield {name: _side(step, count, warm_up) for name, step in steps.items()}


def _side(step: Callable[["Tensor"], float], count: int, warm_up: int) -> Side:
    """A side that measures steps per second over `count` random actions, which are the same for every side."""
    import torch

    from gmi_drl.workload import TASK_SPECS

    generator = torch.Generator().manual_seed(0)

    def run(count: int) -> float:
        """Seconds of `count` steps."""
        actions = 2 * torch.rand(count, NUM_ENV, TASK_SPECS["ant"].action.size, generator=generator) - 1
        return sum(step(action) for action in actions)

    run(warm_up)
    return lambda: Sample(count * NUM_ENV / run(count))


def task_step(task: "Task") -> Callable[["Tensor"], float]:
    """A function that runs one `Task.step` and returns its seconds."""

    def step(action: "Tensor") -> float:
        start = time.perf_counter()
        task.step(action)
        return time.perf_counter() - start

    return step


def bare_step(stage: str) -> Callable[["Tensor"], float]:
    """A function that runs one `Batch.step`, which refreshes the data up to a stage, and returns its seconds.

    The copy of the controls is included.
    """
    import mujoco
    from mujoco import batch

    from gmi_drl.tasks.ant import ANT, FALLEN_HEIGHT_M

    worlds = batch.Batch(mujoco.MjModel.from_xml_string(ANT.build_mjcf()), NUM_ENV, nthread=1)
    views = {name: worlds.bind(name) for name in (*ANT.fields, "ctrl")}
    to_refresh = int(getattr(mujoco.mjtStage, f"mjSTAGE_{stage}").value)

    def step(action: "Tensor") -> float:
        start = time.perf_counter()
        views["ctrl"][:] = action.numpy()
        worlds.step(nstep=ANT.substeps, stage=to_refresh)
        seconds = time.perf_counter() - start
        fallen = views["qpos"][:, 2] < FALLEN_HEIGHT_M
        if fallen.any():
            worlds.reset(fallen, stage=0)
        return seconds

    return step


CASE = Case(
    name="ant_step",
    claim="A whole Ant step (physics, observation, reward, resets) of 512 environments on 1 thread, against the "
    "physics alone (`mujoco.batch.Batch.step`): with its outputs refreshed (`bare`), and with exactly the task's "
    "physics (`lean`).",
    unit="steps/s",
    open=open_sides,
    obstacle=lambda: requirements.package("mujoco", "mujoco"),
    limits="Against `bare` the task gains by leaving out a refresh, which the Ant does not need, but tasks that read "
    "positions of bodies or other derived data do. The ratio to `lean` shows what observation, reward and resets cost.",
    repeats=25,
    guard=0.5,
    floor=20,
)
