"""Environments of gymnasium that are odd, each in one way, as users report them: `gymnasium:odd_worlds:InfFirst-v0`."""

import gymnasium
import numpy as np
from gymnasium import spaces

MAX = float(np.finfo(np.float32).max)


class Even(gymnasium.Env):
    """Three numbers, of which the first is the step; episodes of four steps. The reward is 1."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.look(), {}

    def step(self, action):
        self.steps += 1
        return self.look(), self.reward(), False, self.steps == 4, {}

    def look(self):
        return np.array([self.steps, self.np_random.random(), 0], np.float32)

    def reward(self):
        return 1.0


class InfFirst(Even):
    """The second world's first observation has an infinite number."""

    is_first = True

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        if seed is not None and seed % 2:
            obs[1] = np.inf
        return obs, info


class NanLater(Even):
    """What is seen in the second step of an episode is no number."""

    def look(self):
        obs = super().look()
        obs[2] = np.nan if self.steps == 2 else 0
        return obs


class NanReward(Even):
    """The reward of the second step is no number."""

    def reward(self):
        return np.nan if self.steps == 2 else 1.0


class NoReading(Even):
    """Two sensors without a reading: their sum overflows float32."""

    def look(self):
        return np.array([self.steps, MAX, MAX], np.float32)


class HugeReward(Even):
    """A reward that float32 holds just so."""

    def reward(self):
        return -MAX


for kind in (Even, InfFirst, NanLater, NanReward, NoReading, HugeReward):
    gymnasium.register(f"{kind.__name__}-v0", kind)
