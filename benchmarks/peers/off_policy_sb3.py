"""Stable-Baselines3: DQN on CartPole by the settings of RL Baselines3 Zoo, SAC on HalfCheetah by its defaults."""

import argparse
from typing import Any

import numpy as np
import torch
from off_policy_settings import ENVIRONMENTS, ZOO, Progress, read_off_policy_arguments
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger


class Report(BaseCallback):
    """Tells of each step, and ends the training when its time is over."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress

    def _on_step(self) -> bool:
        self._progress.stepped(self.num_timesteps)
        return not self._progress.updates.is_over


def make_model(arguments: argparse.Namespace) -> BaseAlgorithm:
    """The model."""
    worlds = make_vec_env(ENVIRONMENTS[arguments.algo], arguments.num_env, seed=arguments.seed)
    common: dict[str, Any] = {"seed": arguments.seed, "device": "cpu"}
    if arguments.algo == "dqn":
        return DQN("MlpPolicy", worlds, **common, **ZOO | {"learning_starts": arguments.learning_starts})
    return SAC("MlpPolicy", worlds, **common, learning_starts=arguments.learning_starts)


def count_weights(model: BaseAlgorithm) -> int:
    """How many the networks have, without targets."""
    networks = (model.q_net,) if isinstance(model, DQN) else (model.actor, model.critic)
    return sum(weights.numel() for network in networks for weights in network.parameters())


def main() -> None:
    """Train for a number of steps; some lines have the mean return of episodes without noise, also the last one."""
    arguments = read_off_policy_arguments(__doc__)
    torch.set_num_threads(arguments.threads)
    model = make_model(arguments)
    model.set_logger(Logger(None, []))

    def greedy(obs: np.ndarray) -> Any:
        return model.predict(obs, deterministic=True)[0]

    progress = Progress(arguments, greedy, count_weights(model))
    model.learn(arguments.env_steps, callback=Report(progress))
    progress.end(model.num_timesteps)


if __name__ == "__main__":
    main()
