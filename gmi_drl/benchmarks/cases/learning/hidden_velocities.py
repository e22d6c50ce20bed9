"""CartPole without its velocities, which gymnasium makes by `MODULE:HiddenCartPole-v1`, with this module's name.

A policy must remember the last positions to know them. Imports gymnasium alone, so that peers can load the file.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

LIMIT = 500
"""Control steps of an episode, and its highest return, as of CartPole-v1."""


def make(**arguments: Any) -> gymnasium.Env[Any, Any]:
    """CartPole that shows the positions of cart and pole alone."""
    seen = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    return gymnasium.wrappers.TransformObservation(CartPoleEnv(**arguments), lambda obs: obs[::2], seen)


gymnasium.register("HiddenCartPole-v1", make, max_episode_steps=LIMIT)
