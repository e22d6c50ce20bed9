"""Checks settings against the simulator of a task, before anything is started."""

from gmi_drl.config.physics import Physics, usual_physics
from gmi_drl.config.run_config import WarpRoom
from gmi_drl.config.task_names import ForeignTask, find_task
from gmi_drl.config.task_section import USUAL_SETTINGS, TaskSettings, refused_settings
from gmi_drl.errors import UsageError
from gmi_drl.workload import MUJOCO_SPECS, TASK_SPECS, TaskSpec

ON_GPU = ("mjlab", "isaaclab", "isaacgym")
"""Libraries whose simulators run on a GPU."""

MEASURED_ROOM = WarpRoom()
"""The default: the measured room of each task."""


def check_settings(
    task: TaskSpec | ForeignTask,
    *,
    on_gpu: bool,
    physics: Physics | None,
    room: WarpRoom,
    tells_terms: bool,
    settings: TaskSettings = USUAL_SETTINGS,
) -> None:
    """Refuse settings of `RunConfig` that this task does not support.

    Args:
        task: The task, from `find_task`.
        on_gpu: Whether its tensors are on a GPU.
        physics: The setting `physics`.
        room: The setting `warp`.
        tells_terms: The setting `reward_terms`.
        settings: The section `task`.

    Raises:
        UsageError: with the reason, and what to leave out.
    """
    if refused := refused_settings(task.name, settings):
        raise UsageError(refused)
    if not isinstance(task, ForeignTask):
        check_physics(task.name, task.name in MUJOCO_SPECS, on_gpu=on_gpu, physics=physics, room=room)
        return
    if physics is not None or room != MEASURED_ROOM:
        raise UsageError(
            f"physics and warp are for the tasks of gmi-drl; {task.name} brings its own simulator: leave them out"
        )
    if tells_terms:
        raise UsageError(
            f"reward_terms is for the tasks of gmi-drl; {task.name} does not report terms of its reward: leave it out"
        )


def check_physics(name: str, as_stepped: bool, *, on_gpu: bool, physics: Physics | None, room: WarpRoom) -> None:
    """As `check_settings`, for a task of ours. `as_stepped`: see `TaskDefinition`."""
    if as_stepped and (physics == "warp" or room != MEASURED_ROOM):
        raise UsageError(
            f"{name} equals gymnasium's within 1e-6, which MuJoCo Warp's float32 cannot: leave physics and warp out"
        )
    if room != MEASURED_ROOM and (physics or usual_physics(on_gpu)) != "warp":
        raise UsageError(
            "warp.nconmax and warp.njmax are for MuJoCo Warp, but the physics here is native: leave them out"
        )


def missing_warp(task: TaskSpec | ForeignTask, *, on_gpu: bool, physics: Physics | None) -> str:
    """A warning that MuJoCo Warp is missing, so CPU cores simulate although there is a GPU; empty otherwise.

    Args:
        task: The task, from `find_task`.
        on_gpu: Whether its tensors are on a GPU.
        physics: The setting `physics`.
    """
    is_ours = task in TASK_SPECS.values()
    if not is_ours or not on_gpu or physics is not None or usual_physics(on_gpu) == "warp":
        return ""
    return "MuJoCo Warp is not installed, so CPU cores simulate: pip install 'gmi-drl[warp]'"


def simulates_on_gpu(name: str, physics: Physics | None) -> bool:
    """Whether the simulator of a task runs on a GPU where there is one; others run on cores.

    Args:
        name: The task's name.
        physics: The setting `physics`.
    """
    if isinstance(find_task(name), ForeignTask):
        return name.partition(":")[0] in ON_GPU
    return name not in MUJOCO_SPECS and (physics or usual_physics(on_gpu=True)) == "warp"
