"""A fake task with the behaviour of IsaacGymEnvs' VecTask: lazy resets, a reused dictionary, time_outs in extras.

Each world is a sum of its actions. It falls when the first number exceeds LIMIT, and times out after MAX_STEPS.
"""

import os
import sys
from types import SimpleNamespace

import torch

NUM_OBS, NUM_ACTIONS, LIMIT, MAX_STEPS = 5, 3, 2.0, 8
BLOW_UP = 1.0
"""The first action that makes a world NaN until it is reset."""

FAIL = -1.0
"""The first action that makes the whole simulator fail."""


class FakeTask:
    """Even worlds reset after the physics, as Ant does, odd ones before it, as BallBalance does."""

    dt, control_freq_inv, max_episode_length = 0.01, 2, MAX_STEPS
    num_obs, num_acts = NUM_OBS, NUM_ACTIONS
    action_space = SimpleNamespace(low=[-1.0] * NUM_ACTIONS, high=[1.0, 1.0, float(os.environ.get("FAKE_HIGH", "1"))])
    clip_actions = 2.5

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.obs_buf = torch.zeros(num_envs, NUM_OBS)
        self.reset_buf = torch.ones(num_envs, dtype=torch.long)
        self.progress_buf = torch.zeros(num_envs, dtype=torch.long)
        self.episodes = torch.zeros(num_envs)
        self.resets_early = torch.arange(num_envs) % 2 == 1
        self.obs_dict, self.extras = {}, {}

    def zero_actions(self):
        return torch.zeros(self.num_envs, NUM_ACTIONS)

    def step(self, actions):
        self.reset_marked(self.resets_early)
        self.simulate(actions)
        self.progress_buf += 1
        self.reset_marked(~self.resets_early)
        self.obs_buf[:, 3] = self.progress_buf
        fallen = self.obs_buf[:, 0] > LIMIT
        late = self.progress_buf >= MAX_STEPS - 1
        self.reset_buf[fallen | late] = 1
        self.extras["time_outs"] = late & ~fallen
        self.obs_dict["obs"] = self.obs_buf
        return self.obs_dict, self.obs_buf.sum(1), self.reset_buf, self.extras

    def simulate(self, actions):
        if (actions[:, 0] == FAIL).any():
            print("PhysX: out of patience", file=sys.stderr)
            raise RuntimeError("the physics gave up")
        self.obs_buf[:, :NUM_ACTIONS] += actions
        self.obs_buf[actions[:, 0] == BLOW_UP] = float("nan")

    def reset_marked(self, kind):
        ids = (kind & self.reset_buf.bool()).nonzero(as_tuple=False).flatten()
        self.episodes[ids] += 1
        self.obs_buf[ids] = 0
        self.obs_buf[ids, 4] = self.episodes[ids]
        self.progress_buf[ids], self.reset_buf[ids] = 0, 0


def make(seed, task, num_envs, sim_device, rl_device, graphics_device_id=-1, headless=False, force_render=True):
    assert task == "FakeTask" and sim_device == rl_device and headless and not force_render
    return FakeTask(num_envs)
