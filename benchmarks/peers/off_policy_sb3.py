"""Stable-Baselines3: DQN on CartPole by the settings of RL Baselines3 Zoo, SAC on HalfCheetah by its defaults."""

import argparse
import time
from typing import Any

import torch
from settings import Updates, make_parser
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv

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
ENVIRONMENTS = {"dqn": "CartPole-v1", "sac": "HalfCheetah-v5"}


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


def read_off_policy_arguments() -> argparse.Namespace:
    """The command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--algo", choices=ENVIRONMENTS, required=True)
    parser.add_argument("--env-steps", type=int, required=True)
    parser.add_argument("--learning-starts", type=int, required=True)
    return parser.parse_args()


def make_model(arguments: argparse.Namespace) -> BaseAlgorithm:
    """The model."""
    worlds = make_vec_env(ENVIRONMENTS[arguments.algo], arguments.num_env, seed=arguments.seed)
    common: dict[str, Any] = {"seed": arguments.seed, "device": "cpu"}
    if arguments.algo == "dqn":
        return DQN("MlpPolicy", worlds, **common, **ZOO | {"learning_starts": arguments.learning_starts})
    return SAC("MlpPolicy", worlds, **common, learning_starts=arguments.learning_starts)


def main() -> None:
    """Train for a number of steps; some lines have the mean return of episodes without noise, also the last one."""
    arguments = read_off_policy_arguments()
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
