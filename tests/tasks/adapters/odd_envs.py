"""Environments of gymnasium that are odd, each in one way, as users report them: `gymnasium:odd_envs:InfFirst-v0`."""

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


class NoReward(Even):
    """It forgets to return a reward."""

    def reward(self):
        return None


class RewardArray(Even):
    """Its reward is an array of one number."""

    def reward(self):
        return np.array([1.0])


class OldReset(Even):
    """As in gym before 0.26: no info."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class OldStep(Even):
    """As in gym before 0.26: one end for two."""

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, info


class OtherShape(Even):
    """It shows more than its space says."""

    def look(self):
        return np.zeros(4, np.float32)


class NoEnd(Even):
    """It forgets to say whether the episode has ended."""

    def step(self, action):
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, None, truncated, info


class Sometimes(Even):
    """One step of an episode returns None in the place of one of its values."""

    def __init__(self, place, at, is_last=False):
        self.place, self.at, self.is_last = place, at, is_last

    def step(self, action):
        told = list(super().step(action))
        if self.steps == self.at:
            told[3] = self.is_last
            told[self.place] = None
        return tuple(told)


class Settled(Even):
    """A reset lets the robot settle for two steps."""

    def reset(self, *, seed=None, options=None):
        _, info = super().reset(seed=seed)
        for _ in range(2):
            obs, *_ = self.step(np.zeros(2, np.float32))
        return obs, info


class Restarting(Even):
    """Each step begins an episode."""

    def step(self, action):
        self.reset()
        return super().step(action)


class Failing(Even):
    """The second world fails in its third step."""

    def reset(self, *, seed=None, options=None):
        self.number = seed or 0
        return super().reset(seed=seed)

    def reward(self):
        return 1 / (self.number % 2 == 0 or self.steps < 3)


class Furnished(Even):
    """It wants a file, and may have a size."""

    def __init__(self, urdf_path, size=1):
        self.urdf_path, self.size = urdf_path, size

    def look(self):
        return np.array([len(self.urdf_path), self.size, 0], np.float32)


class Composed(Even):
    """A part of what it shows is text."""

    observation_space = spaces.Dict({"joints": spaces.Box(-1, 1, (2,)), "words": spaces.Text(8)})


class Double(Even):
    """It computes in torch's default type, which it has set for itself when it was made."""

    def __init__(self):
        import torch

        torch.set_default_dtype(torch.float64)

    def look(self):
        import torch

        tensor = torch.tensor([0.1, 0.2, 0.3])
        assert tensor.dtype == torch.float64
        return tensor.numpy().astype(np.float32)


class Vectors(gymnasium.vector.VectorEnv):
    """Many worlds in one."""

    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs=1, size=1.0):
        self.num_envs, self.size = num_envs, size
        self.single_observation_space, self.single_action_space = Even.observation_space, Even.action_space

    def reset(self, *, seed=None, options=None):
        return np.full((self.num_envs, 3), self.size, np.float32), {}

    def step(self, action):
        never = np.zeros(self.num_envs, bool)
        return self.reset()[0], np.ones(self.num_envs), never, never, {}


for kind in (NoReward, RewardArray, OldReset, OldStep, OtherShape, NoEnd, Failing, Furnished, Composed, Double):
    gymnasium.register(f"{kind.__name__}-v0", kind)


def mended():
    """Its wrapper makes numbers of its rewards."""
    return gymnasium.wrappers.TransformReward(RewardArray(), np.ndarray.item)


gymnasium.register("Mended-v0", mended)
for kind in (Sometimes, Settled, Restarting):
    gymnasium.register(f"{kind.__name__}-v0", kind)
gymnasium.register("Vectors-v0", vector_entry_point=Vectors)
