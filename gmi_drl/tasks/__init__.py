"""The tasks, by name. Importing this package imports torch; the simulator is imported when a task is made."""

from importlib.util import find_spec

import torch

from gmi_drl.config import Physics
from gmi_drl.errors import UsageError
from gmi_drl.files import did_you_mean
from gmi_drl.sim import NativeSim, Sim
from gmi_drl.tasks.ant import ANT
from gmi_drl.tasks.sim_task import SimTask, TaskDefinition
from gmi_drl.tasks.task import Task

__all__ = ["TASKS", "SimTask", "Task", "TaskDefinition", "make"]

TASKS: dict[str, TaskDefinition] = {definition.spec.name: definition for definition in (ANT,)}


def make(
    name: str,
    num_env: int = 512,
    device: str = "cpu",
    seed: int = 0,
    threads: int = 1,
    physics: Physics | None = None,
) -> Task:
    """Make a task, ready to step.

    Args:
        name: A key of TASKS or the paper's abbreviation ("AT"), in any case.
        num_env: Number of worlds N.
        device: Where the tensors live ("cpu", "cuda").
        seed: Decides every random draw of the task.
        threads: CPU threads for native physics.
        physics: "native" (MuJoCo on CPU threads) or "warp" (MuJoCo Warp on the device); None takes Warp on a GPU where
            it is installed, else native.

    Raises:
        UsageError: There is no such task, or a number is below 1.
        MachineError: mujoco, or what else the physics needs, is not installed.
    """
    definition = _find(name)
    return SimTask(definition, _make_sim(definition, num_env, device, threads, physics), seed)


def _make_sim(definition: TaskDefinition, num_env: int, device: str, threads: int, physics: Physics | None) -> Sim:
    model, substeps, fields = definition.build_mjcf(), definition.substeps, definition.fields
    if (physics or _usual_physics(device)) == "warp":
        from gmi_drl.sim import WarpSim

        return WarpSim(model, num_env, substeps=substeps, fields=fields, device=device)
    return NativeSim(model, num_env, substeps=substeps, fields=fields, threads=threads, device=device)


def _usual_physics(device: str) -> Physics:
    return "warp" if torch.device(device).type == "cuda" and find_spec("mujoco_warp") else "native"


def _find(name: str) -> TaskDefinition:
    spellings = {spelling.lower(): task for task in TASKS.values() for spelling in (task.spec.name, task.spec.alias)}
    if name.lower() in spellings:
        return spellings[name.lower()]
    raise UsageError(f"there is no task {name!r}{did_you_mean(name.lower(), sorted(spellings))}")
