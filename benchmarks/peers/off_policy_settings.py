"""What peers train DQN and SAC with: RL Baselines3 Zoo's DQN on CartPole, Stable-Baselines3's SAC on HalfCheetah."""

import argparse
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from settings import Updates, make_parser

EVERY = 1000
"""Steps between two lines."""

EPISODES, EVALUATIONS = 10, 20
"""Episodes without noise, and how often they are played, in time that does not count."""

ZOO: dict[str, Any] = {
    "learning_rate": 2.3e-3,
    "batch_size": 64,
    "buffer_size": 100_000,
    "learning_starts": 1000,
    "gamma": 0.99,
    "target_update_interval": 10,
    "train_freq": 256,
    "gradient_steps": 128,
    "exploration_fraction": 0.16,
    "exploration_final_eps": 0.04,
    "policy_kwargs": {"net_arch": [256, 256]},
}
MAX_GRAD_NORM = 10.0
"""Stable-Baselines3's, of DQN."""

SAC: dict[str, Any] = {"learning_rate": 3e-4, "batch_size": 256, "buffer_size": 1_000_000, "gamma": 0.99, "tau": 0.005}
"""Stable-Baselines3's defaults; an update a step, the weight of the entropy tuned from 1."""

HIDDEN = (256, 256)
ENVIRONMENTS = {"dqn": "CartPole-v1", "sac": "HalfCheetah-v5"}


def read_off_policy_arguments(description: str | None) -> argparse.Namespace:
    """The command line."""
    parser = make_parser(description)
    parser.add_argument("--algo", choices=ENVIRONMENTS, required=True)
    parser.add_argument("--env-steps", type=int, required=True)
    parser.add_argument("--learning-starts", type=int, required=True)
    return parser.parse_args()


class Progress:
    """Tells of every thousand steps, and plays episodes without noise now and then; the clock stands still meanwhile.

    Args:
        arguments: The command line.
        greedy: The action without noise for an observation `[O]`.
        weights: How many the networks have, without targets.
    """

    def __init__(self, arguments: argparse.Namespace, greedy: Callable[[np.ndarray], Any], weights: int) -> None:
        self.updates, self._greedy, self._told, self._evaluations = Updates(arguments.seconds), greedy, 0, 0
        self.updates.weights = weights
        self._every = max(1, arguments.env_steps // EVALUATIONS)
        self._world = gymnasium.make(ENVIRONMENTS[arguments.algo])
        self._world.reset(seed=77)

    def stepped(self, steps: int) -> None:
        """So many steps have been done."""
        if steps // EVERY > self._told:
            self._told = steps // EVERY
            self.updates.report(steps, None)
        if steps // self._every > self._evaluations:
            self._evaluations = steps // self._every
            self.evaluate(steps)

    def end(self, steps: int) -> None:
        """The training is over."""
        self.updates.report(steps, None)
        self.evaluate(steps)

    def evaluate(self, steps: int) -> None:
        """Play, and tell the mean return."""
        began, began_cpu = time.monotonic(), time.process_time()
        returns = [self._episode() for _ in range(EPISODES)]
        self.updates.started += time.monotonic() - began
        self.updates.started_cpu += time.process_time() - began_cpu
        self.updates.report(steps, sum(returns) / EPISODES, EPISODES)

    def _episode(self) -> float:
        obs, total, ended = self._world.reset()[0], 0.0, False
        while not ended:
            obs, reward, terminated, truncated, _ = self._world.step(self._greedy(obs))
            total, ended = total + float(reward), terminated or truncated
        return total
