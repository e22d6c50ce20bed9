"""Isaac Lab's tasks, direct and manager-based: `isaaclab:Isaac-Ant-Direct-v0`.

Isaac Sim is started once in a process and ends with it, because it cannot be started a second time.
"""

from typing import Any

from gmi_drl.errors import MachineError, UsageError, did_you_mean
from gmi_drl.processes.signals import handlers_kept
from gmi_drl.tasks.adapters.torch_env import TorchEnvTask

INSTALL = "install it as isaac-sim.github.io/IsaacLab says, then pip install gmi-drl in the same environment"
_LAUNCHED: list[Any] = []
"""The simulation of this process, kept alive: at most one."""


def make_task(rest: str, *, num_env: int, device: str, seed: int, threads: int) -> TorchEnvTask:
    """Make the task `isaaclab:REST`; `rest` is an id that `isaaclab_tasks` registers. `threads` has no effect.

    Raises:
        UsageError: there is no such task.
        MachineError: Isaac Lab is not installed.
    """
    try:
        import gymnasium
        import isaaclab.app
    except ImportError as error:
        raise MachineError(f"Isaac Lab is not installed ({error}): {INSTALL}") from error

    launches_by_config = hasattr(isaaclab.app, "launch_simulation")
    if not launches_by_config:  # Isaac Lab 2: its modules cannot be imported before Isaac Sim runs
        _start_isaac_sim(device)
    cfg = _config(rest, num_env, device, seed)
    if launches_by_config:
        _launch(cfg, device)
    return TorchEnvTask(gymnasium.make(rest, cfg=cfg).unwrapped, f"isaaclab:{rest}")


def _config(rest: str, num_env: int, device: str, seed: int) -> Any:
    import gymnasium
    from isaaclab_tasks.utils import parse_env_cfg  # this import registers the tasks, too

    if rest not in gymnasium.registry:
        raise UsageError(f"Isaac Lab has no {rest!r}{did_you_mean(rest, gymnasium.registry)}")
    cfg = parse_env_cfg(rest, device=device, num_envs=num_env)
    cfg.seed = seed
    return cfg


def _start_isaac_sim(device: str) -> None:
    from isaaclab.app import AppLauncher

    if not _LAUNCHED:
        with handlers_kept():  # else Isaac Lab ends the process by SIGTERM, which only the launcher should do
            _LAUNCHED.append(AppLauncher(headless=True, device=device).app)


def _launch(cfg: Any, device: str) -> None:
    """Start what the configuration needs (Isaac Lab 3), unless a simulation runs already."""
    from isaaclab.app import launch_simulation

    if not _LAUNCHED:
        _LAUNCHED.append(launch_simulation(cfg, {"device": device}))
        with handlers_kept():
            _LAUNCHED[0].__enter__()
