"""Stable-Baselines3: DQN on CartPole by the settings of RL Baselines3 Zoo, SAC on HalfCheetah by its defaults."""

import argparse
import time
from typing import Any

import torch
from off_policy_settings import ENVIRONMENTS, EPISODES, EVALUATIONS, EVERY, ZOO, read_off_policy_arguments
from settings import Updates
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv

class Report(BaseCallback):
    """Tells of every thousand steps, and plays episodes without noise now and then."""

    def __init__(self, seconds: float, steps: int, worlds: VecEnv) -> None:
        super().__init__()
        self.updates, self._worlds, self._evaluations = Updates(seconds), worlds, 0
        self._every = max(1, steps // EVALUATIONS)

    def _on_step(self) -> bool:
        if self.num_timesteps % EVERY == 0:
            self.updates.report(self.num_timesteps, None)
        return not self.updates.is_over

    def _on_rollout_start(self) -> None:
        if self.num_timesteps // self._every > self._evaluations:
            self._evaluations = self.num_timesteps // self._every
            self.evaluate()

    def evaluate(self) -> None:
        """Play, and tell the mean return. The clock stands still meanwhile."""
        began, began_cpu = time.monotonic(), time.process_time()
        returns, _ = evaluate_policy(self.model, self._worlds, EPISODES)
        self.updates.started += time.monotonic() - began
        self.updates.started_cpu += time.process_time() - began_cpu
        self.updates.report(self.num_timesteps, float(returns), EPISODES)


def make_model(arguments: argparse.Namespace) -> BaseAlgorithm:
    """The model."""
    worlds = make_vec_env(ENVIRONMENTS[arguments.algo], arguments.num_env, seed=arguments.seed)
    common: dict[str, Any] = {"seed": arguments.seed, "device": "cpu"}
    if arguments.algo == "dqn":
        return DQN("MlpPolicy", worlds, **common, **ZOO | {"learning_starts": arguments.learning_starts})
    return SAC("MlpPolicy", worlds, **common, learning_starts=arguments.learning_starts)


def main() -> None:
    """Train for a number of steps; some lines have the mean return of episodes without noise, also the last one."""
    arguments = read_off_policy_arguments(__doc__)
    torch.set_num_threads(arguments.threads)
    model = make_model(arguments)
    model.set_logger(Logger(None, []))
    worlds = make_vec_env(ENVIRONMENTS[arguments.algo], 1, seed=77)
    report = Report(arguments.seconds, arguments.env_steps, worlds)
    model.learn(arguments.env_steps, callback=report)
    report.updates.report(model.num_timesteps, None)
    report.evaluate()


if __name__ == "__main__":
    main()
