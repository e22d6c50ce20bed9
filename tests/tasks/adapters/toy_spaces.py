"""An environment of any spaces, and random nested spaces."""

import gymnasium
import numpy as np
from gymnasium import spaces

LIMIT = 7


class AnySpaces(gymnasium.Env):
    """Shows random observations, and rewards nothing; it checks that actions are in its space."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"{action} is not in {self.action_space}")
        self.steps += 1
        return self.observation_space.sample(), 1.0, False, self.steps == LIMIT, {}


def random_space(rng, leaf, depth=2):
    """A Dict or Tuple of up to `depth` levels, or a leaf."""
    kind = rng.integers(3) if depth else 2
    if kind == 2:
        return leaf(rng)
    inner = [random_space(rng, leaf, depth - 1) for _ in range(rng.integers(1, 4))]
    return spaces.Tuple(inner) if kind else spaces.Dict({f"p{number}": one for number, one in enumerate(inner)})


def seen_leaf(rng):
    size = int(rng.integers(1, 5))
    return [
        lambda: spaces.Box(-2, 2, (size,)),
        lambda: spaces.Box(-np.inf, np.inf, (size, 2), np.float64),
        lambda: spaces.Box(0, 255, (8 + size, 9, 3), np.uint8),
        lambda: spaces.Box(0, 1, (2, 10, 10), np.bool_),
        lambda: spaces.Discrete(size, start=-1),
        lambda: spaces.MultiDiscrete([size, 3]),
        lambda: spaces.MultiBinary(size),
    ][rng.integers(7)]()


def done_leaf(rng):
    size = int(rng.integers(1, 5))
    return [
        lambda: spaces.Box(-3, 1, (size,)),
        lambda: spaces.Box(0, 5, (2, size), np.float64),
        lambda: spaces.Discrete(size, start=2),
        lambda: spaces.MultiDiscrete([size, 3]),
        lambda: spaces.MultiBinary(size),
    ][rng.integers(5)]()
