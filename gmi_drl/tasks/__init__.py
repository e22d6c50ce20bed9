"""The tasks, by name. Importing this package imports torch; the simulator is imported when a task is made."""

from gmi_drl.errors import UsageError
from gmi_drl.files import did_you_mean
from gmi_drl.sim import NativeSim
from gmi_drl.tasks.ant import ANT
from gmi_drl.tasks.check import check_task
from gmi_drl.tasks.sim_task import SimTask, TaskDefinition
from gmi_drl.tasks.task import Task

__all__ = ["TASKS", "SimTask", "Task", "TaskDefinition", "check_task", "make"]

TASKS: dict[str, TaskDefinition] = {definition.spec.name: definition for definition in (ANT,)}


def make(name: str, num_env: int = 512, device: str = "cpu", seed: int = 0, threads: int = 1) -> Task:
    """Make a task, ready to step.

    Args:
        name: A key of TASKS or the paper's abbreviation ("AT"), in any case.
        num_env: Number of worlds N.
        device: Where the tensors live ("cpu", "cuda").
        seed: Decides every random draw of the task.
        threads: CPU threads for the physics.

    Raises:
        UsageError: There is no such task, or a number is below 1.
        MachineError: mujoco is not installed.
    """
    definition = _find(name)
    fields, substeps = definition.fields, definition.substeps
    sim = NativeSim(definition.build_mjcf(), num_env, substeps=substeps, fields=fields, threads=threads, device=device)
    return SimTask(definition, sim, seed)


def _find(name: str) -> TaskDefinition:
    spellings = {spelling.lower(): task for task in TASKS.values() for spelling in (task.spec.name, task.spec.alias)}
    if name.lower() in spellings:
        return spellings[name.lower()]
    raise UsageError(f"there is no task {name!r}{did_you_mean(name.lower(), sorted(spellings))}")
