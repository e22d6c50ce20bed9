"""mjlab's tasks: `mjlab:Mjlab-Velocity-Flat-Unitree-Go1`. mjlab 1.6 needs another MuJoCo and rsl_rl than ours."""

from gmi_drl.errors import MachineError, UsageError, did_you_mean
from gmi_drl.tasks.adapters.torch_env import TorchEnvTask

INSTALL = "pip install mjlab, in an environment without gmi-drl[mujoco]"


def make_task(rest: str, *, num_env: int, device: str, seed: int, threads: int) -> TorchEnvTask:
    """The task `mjlab:REST`; `REST` is an id of mjlab's registry. `threads` changes nothing.

    Raises:
        UsageError: there is no such task.
        MachineError: mjlab is not installed.
    """
    try:
        from mjlab.envs import ManagerBasedRlEnv
        from mjlab.tasks.registry import list_tasks, load_env_cfg  # which registers the tasks, too
    except ImportError as error:
        raise MachineError(f"mjlab is not installed ({error}): {INSTALL}") from error

    known = list_tasks()
    if rest not in known:
        raise UsageError(f"mjlab has no {rest!r}{did_you_mean(rest, known)}")
    cfg = load_env_cfg(rest)
    cfg.scene.num_envs, cfg.seed = num_env, seed
    return TorchEnvTask(ManagerBasedRlEnv(cfg, device), f"mjlab:{rest}", groups=("actor", "policy"))
