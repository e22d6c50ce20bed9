"""FAKES of Isaac Lab and mjlab: their signatures, and a physics that a test can calculate. Nothing is simulated.

An observation is `[steps in the episode, world, what the first motor was told]`. World 0 falls at its third step. Like
the real ones, they write to the same tensors again in every step.
"""

import signal
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import torch
from gymnasium import spaces

FALLS_AT = 3


@dataclass
class FakeBox:
    """mjlab's: bounds are single numbers."""

    shape: tuple
    low: float = float("-inf")
    high: float = float("inf")


@dataclass
class FakeDict:
    """mjlab's."""

    spaces: dict = field(default_factory=dict)


class FakeEnv:
    """What Isaac Lab's direct and manager-based environments and mjlab's have in common."""

    def __init__(self, num_envs, observation_space, action_space, group, device="cpu", steps=5):
        self.num_envs, self.device, self.max_episode_length, self.step_dt = num_envs, device, steps, 0.02
        self.single_observation_space, self.single_action_space = observation_space, action_space
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.reset_terminated, self.reset_time_outs = torch.zeros(2, num_envs, dtype=torch.bool)
        self.obs_buf = {group: torch.zeros(num_envs, 3), "critic": torch.zeros(num_envs, 7)}
        self.extras, self.group, self.told, self.is_closed, self.gives_final_obs = {}, group, [], False, False

    def reset(self, seed=None, options=None):
        self.episode_length_buf[:] = 0
        self._observe(torch.zeros(self.num_envs))
        return self.obs_buf, self.extras

    def step(self, action):
        self.told.append(action.clone())
        self.episode_length_buf += 1
        self.reset_terminated[:] = (self.episode_length_buf >= FALLS_AT) & (torch.arange(self.num_envs) == 0)
        self.reset_time_outs[:] = self.episode_length_buf >= self.max_episode_length
        reward = action[:, 0].clone()
        ended = self.reset_terminated | self.reset_time_outs
        if self.gives_final_obs:
            self._observe(action[:, 0])
            self.extras["final_obs"] = {name: obs.clone() for name, obs in self.obs_buf.items()}
        self.episode_length_buf[ended] = 0
        self._observe(torch.where(ended, 0.0, action[:, 0]))
        return self.obs_buf, reward, self.reset_terminated, self.reset_time_outs, self.extras

    def close(self):
        assert not self.is_closed, "the real ones do not like to be closed twice"
        self.is_closed = True

    @property
    def unwrapped(self):
        return self

    def _observe(self, told):
        parts = self.episode_length_buf.float(), torch.arange(self.num_envs).float(), told
        self.obs_buf[self.group][:] = torch.stack(parts, 1)


def fake_isaaclab_env(num_envs=2, **more):
    box = spaces.Box(-np.inf, np.inf, (3,))
    return FakeEnv(num_envs, spaces.Dict(policy=box), spaces.Box(-1.0, 1.0, (2,)), "policy", **more)


def fake_mjlab_env(num_envs=2, **more):
    space = FakeDict({"actor": FakeBox((3,)), "critic": FakeBox((7,))})
    return FakeEnv(num_envs, space, FakeBox((2,)), "actor", **more)


def fake_mjlab():
    """The modules that `mjlab` is, by name, with the tasks `Mjlab-Fake` and `Mjlab-Follower`, which reads a motion."""
    cfgs = {
        name: SimpleNamespace(scene=SimpleNamespace(num_envs=1), seed=None, commands=commands)
        for name, commands in (("Mjlab-Fake", {}), ("Mjlab-Follower", {"motion": SimpleNamespace(motion_file="")}))
    }
    registry, envs = ModuleType("mjlab.tasks.registry"), ModuleType("mjlab.envs")
    registry.list_tasks, registry.load_env_cfg = lambda: list(cfgs), lambda name: deepcopy(cfgs[name])

    def make(cfg, device, render_mode=None):
        for command in cfg.commands.values():
            Path(command.motion_file).read_bytes()
        env = fake_mjlab_env(cfg.scene.num_envs, device=device)
        env.cfg = cfg
        return env

    envs.ManagerBasedRlEnv = make
    modules = {"mjlab": ModuleType("mjlab"), "mjlab.tasks": ModuleType("mjlab.tasks")}
    return {**modules, "mjlab.tasks.registry": registry, "mjlab.envs": envs}


def fake_isaaclab(version):
    """The modules that Isaac Lab 2 or 3 is, by name, and the list of what was called, in order."""
    calls = []
    app, utils = ModuleType("isaaclab.app"), ModuleType("isaaclab_tasks.utils")

    class AppLauncher:
        def __init__(self, headless, device):
            calls.append(f"Isaac Sim on {device}")
            signal.signal(signal.SIGTERM, lambda number, frame: calls.append("ended by a signal"))
            self.app = object()

    class Launch:
        def __init__(self, cfg, launcher_args):
            self.cfg, self.launcher_args = cfg, launcher_args

        def __enter__(self):
            calls.append(f"launched for {self.cfg.num_envs} on {self.launcher_args['device']}")
            signal.signal(signal.SIGTERM, lambda number, frame: calls.append("ended by a signal"))

        def __exit__(self, *error):
            calls.append("ended")

    def parse_env_cfg(task_name, device=None, num_envs=None):
        calls.append(f"configured {task_name}")
        return SimpleNamespace(device=device, num_envs=num_envs, seed=None)

    app.AppLauncher, utils.parse_env_cfg = AppLauncher, parse_env_cfg
    if version == 3:
        app.launch_simulation = Launch
    package, tasks = ModuleType("isaaclab"), ModuleType("isaaclab_tasks")
    package.app = app
    return {"isaaclab": package, "isaaclab.app": app, "isaaclab_tasks": tasks, "isaaclab_tasks.utils": utils}, calls
