"""Tasks by name. Importing this package imports torch; a simulator is imported when a task that needs it is made."""

import json
from dataclasses import replace
from inspect import signature
from typing import Any

import torch

from gmi_drl.config.physics import Physics, usual_physics
from gmi_drl.config.run_config import WarpRoom
from gmi_drl.config.task_names import ForeignTask, find_task
from gmi_drl.config.task_section import USUAL_SETTINGS, TaskSettings
from gmi_drl.config.task_settings import MEASURED_ROOM, check_physics, check_settings
from gmi_drl.errors import GmiError, MachineError, UsageError, place_of
from gmi_drl.tasks.ant import ANT
from gmi_drl.tasks.anymal import ANYMAL
from gmi_drl.tasks.ball_balance import BALL_BALANCE
from gmi_drl.tasks.check import check_task
from gmi_drl.tasks.franka_cabinet import FRANKA_CABINET
from gmi_drl.tasks.humanoid import HUMANOID
from gmi_drl.tasks.mujoco_v5 import MUJOCO_TASKS
from gmi_drl.tasks.shadow_hand import SHADOW_HAND
from gmi_drl.tasks.sim import NativeSim, Sim, SteppedSim
from gmi_drl.tasks.sim_task import SimTask, TaskDefinition
from gmi_drl.tasks.task import Task

__all__ = ["TASKS", "SimTask", "Task", "TaskDefinition", "check_task", "make", "make_sim"]

TASKS: dict[str, TaskDefinition] = {
    definition.spec.name: definition
    for definition in (ANT, ANYMAL, BALL_BALANCE, FRANKA_CABINET, HUMANOID, SHADOW_HAND, *MUJOCO_TASKS)
}


def make(
    name: str,
    num_env: int = 512,
    device: str = "cpu",
    seed: int = 0,
    threads: int = 1,
    physics: Physics | None = None,
    cuda_graphs: bool = True,
    room: WarpRoom = MEASURED_ROOM,
    tells_terms: bool = False,
    settings: TaskSettings = USUAL_SETTINGS,
    films: bool = False,
) -> Task:
    """Make a task, ready to step.

    Args:
        name: One of three. A key of TASKS or the paper's abbreviation ("AT"), in any case. `PREFIX:REST`, another
            library's task by an adapter ("gymnasium:HalfCheetah-v5"). A name that an installed package has registered.
            The last two may carry arguments (`config/task_names.py`).
        num_env: Number of environments N.
        device: The device of the tensors ("cpu", "cuda").
        seed: Seed of every random draw of the task.
        threads: CPU threads of native physics.
        physics: "native" (MuJoCo on CPU threads) or "warp" (MuJoCo Warp on the device). None: Warp on a GPU if it is
            installed, else native.
        cuda_graphs: Whether Warp's kernels are launched as graphs, on the CPU as well.
        room: Warp's memory for contacts and constraints.
        tells_terms: Whether the task sums the terms of its rewards (`SimTask.reward_terms`).
        settings: How it is played: the section `task` of a configuration.
        films: Whether another library's task must be able to `draw` its pictures. Our own are drawn by `sim.renderer`.

    Raises:
        UsageError: There is no such task, a number is below 1, the simulator does not support `physics`, `room`,
            `tells_terms` or a setting, or the task cannot be made with the arguments in its name.
        MachineError: mujoco, or another package that the simulator needs, is not installed.
    """
    found, on_gpu = find_task(name), torch.device(device).type == "cuda"
    check_settings(found, on_gpu=on_gpu, physics=physics, room=room, tells_terms=tells_terms, settings=settings)
    if isinstance(found, ForeignTask):
        more: dict[str, Any] = {} if settings == USUAL_SETTINGS else {"settings": settings}
        if films:
            more["films"] = True
        if "cuda_graphs" in signature(found.maker()).parameters:
            more["cuda_graphs"] = cuda_graphs
        return _make_foreign(found, num_env, device, seed, threads, more)
    definition = TASKS[found.name]
    sim = make_sim(definition, num_env, device, threads, physics, cuda_graphs, room)
    return SimTask(definition, sim, seed, tells_terms=tells_terms, cuda_graphs=cuda_graphs)


def make_sim(
    definition: TaskDefinition,
    num_env: int,
    device: str = "cpu",
    threads: int = 1,
    physics: Physics | None = None,
    cuda_graphs: bool = True,
    room: WarpRoom = MEASURED_ROOM,
) -> Sim:
    """Make the simulator of one of our own tasks, without the task. Arguments are those of `make`."""
    model, substeps, fields = definition.build_mjcf(), definition.substeps, definition.fields
    on_gpu = torch.device(device).type == "cuda"
    check_physics(definition.spec.name, definition.as_stepped, on_gpu=on_gpu, physics=physics, room=room)
    if definition.as_stepped:
        return SteppedSim(model, num_env, substeps=substeps, fields=fields, threads=threads, device=device)
    if (physics or usual_physics(on_gpu)) == "warp":
        from gmi_drl.tasks.sim import WarpSim

        sizes = room.model_dump()
        return WarpSim(
            model, num_env, substeps=substeps, fields=fields, device=device, cuda_graphs=cuda_graphs, **sizes
        )
    return NativeSim(model, num_env, substeps=substeps, fields=fields, threads=threads, device=device)


def _make_foreign(found: ForeignTask, num_env: int, device: str, seed: int, threads: int, more: dict[str, Any]) -> Task:
    if num_env < 1 or threads < 1:
        raise UsageError(f"num_env is {num_env} and threads is {threads}: both must be at least 1")
    maker = found.maker()
    if "films" in more and "films" not in signature(maker).parameters:
        raise UsageError(f"{found.name} cannot be drawn, as another simulator runs it: leave out -o")
    if found.arguments:
        if "arguments" not in signature(maker).parameters:
            raise UsageError(f"{found.name}: tasks of {found.entry_point.name} take no arguments: leave --env-arg out")
        more["arguments"] = found.arguments
    ours = torch.get_default_dtype()
    try:
        task: Task = maker(found.rest, num_env=num_env, device=device, seed=seed, threads=threads, **more)
    except MachineError:
        raise
    except Exception as error:  # another library may raise anything
        if not found.arguments:
            raise
        raise _refused(found, error) from error
    finally:
        torch.set_default_dtype(ours)  # a simulator's module may change it: see `AdaptedTask`
    if found.arguments:
        task.spec = replace(task.spec, name=found.name, alias=found.name)
    return task


def _refused(found: ForeignTask, error: Exception) -> UsageError:
    """The error for a task that cannot be made with its arguments; it lists them."""
    given = " ".join(f"--env-arg {key}={json.dumps(value)}" for key, value in found.arguments.items())
    reason = str(error)
    if not isinstance(error, GmiError):
        bare = found.name.partition("{")[0]
        reason = f"{bare} cannot be made: {type(error).__name__}: {error} ({place_of(error)})"
    return UsageError(f"{reason}; its arguments were {given}")
