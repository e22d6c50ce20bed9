"""mjlab's tasks: `mjlab:Mjlab-Velocity-Flat-Unitree-Go1`. mjlab 1.6 needs a different MuJoCo and rsl_rl from ours.

A task that follows a motion is named with the file: `mjlab:Mjlab-Tracking-Flat-Unitree-G1:/path/to/motion.npz`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gmi_drl.errors import UsageError, did_you_mean, not_importable
from gmi_drl.tasks.adapters.torch_env import TorchEnvTask

INSTALL = "pip install mjlab, in an environment without gmi-drl[mujoco]"


def make_task(rest: str, *, num_env: int, device: str, seed: int, threads: int) -> TorchEnvTask:
    """Make the task `mjlab:REST`; `rest` is an id of mjlab's registry, see the module. `threads` has no effect.

    Raises:
        UsageError: there is no such task, or its motion file is missing.
        MachineError: mjlab is not installed.
    """
    try:
        from mjlab.envs import ManagerBasedRlEnv
        from mjlab.tasks.registry import list_tasks, load_env_cfg  # this import registers the tasks, too
    except ImportError as error:
        raise not_importable("mjlab", "mjlab.envs", error, INSTALL) from error

    known = list_tasks()
    name, _, motion = rest.partition(":")
    if name not in known:
        raise UsageError(f"mjlab has no {name!r}{did_you_mean(name, known)}")
    cfg = load_env_cfg(name)
    cfg.scene.num_envs, cfg.seed = num_env, seed
    _set_motion(cfg.commands, f"mjlab:{name}", motion)
    return TorchEnvTask(ManagerBasedRlEnv(cfg, device), f"mjlab:{rest}", groups=("actor", "policy"))


def _set_motion(commands: Mapping[str, Any], name: str, given: str) -> None:
    """Set the motion file of all commands that follow a motion, and check it. mjlab itself would fail later."""
    followers = [command for command in commands.values() if hasattr(command, "motion_file")]
    if given and not followers:
        raise UsageError(f"{name} follows no motion: leave {given!r} out of its name")
    for command in followers:
        command.motion_file = given or command.motion_file
        if not Path(command.motion_file).is_file():
            reason = f"{command.motion_file} is no file" if command.motion_file else "mjlab ships none"
            raise UsageError(
                f"{name} needs the file of the motion that it follows (.npz, as mjlab's csv_to_npz writes it), and "
                f"{reason}: name one with the task, as in {name}:/path/to/motion.npz"
            )
