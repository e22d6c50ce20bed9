"""Stable-Baselines3's DQN on a game of MinAtar, by given settings, with the small network of `minatar_sb3.py`."""

import gymnasium
import minatar.gym
import torch
from minatar_sb3 import SmallConvolutions, as_picture
from settings import Updates, read_settings, updates_of
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger

EVERY = 10_000
"""Steps between two lines."""


class Report(BaseCallback):
    """Tells of the episodes since the last line."""

    def __init__(self, updates: Updates) -> None:
        super().__init__()
        self.updates, self._told = updates, 0

    def _on_step(self) -> bool:
        if self.num_timesteps - self._told >= EVERY:
            self.tell()
        return not self.updates.is_over

    def _on_training_end(self) -> None:
        if self.num_timesteps > self._told:
            self.tell()

    def tell(self) -> None:
        """Print a line."""
        self._told, ended = self.num_timesteps, self.model.ep_info_buffer
        assert ended is not None
        returns = [episode["r"] for episode in ended]
        self.updates.report(self._told, sum(returns) / len(returns) if returns else None, len(returns))
        ended.clear()


def replay_bytes(model: DQN) -> int:
    """Bytes of all arrays of its replay."""
    arrays = vars(model.replay_buffer).values()
    return sum(array.nbytes for array in arrays if hasattr(array, "nbytes"))


def main() -> None:
    """Train by the settings given."""
    minatar.gym.register_envs()
    arguments = read_settings(__doc__)
    given = arguments.settings
    torch.set_num_threads(arguments.threads)
    envs = make_vec_env(lambda: as_picture(gymnasium.make(given["env_id"])), arguments.num_env, seed=arguments.seed)
    model = DQN(
        "CnnPolicy",
        envs,
        learning_rate=given["learning_rate"],
        buffer_size=given["size"],
        learning_starts=given["starts"],
        batch_size=given["batch"],
        gamma=given["gamma"],
        train_freq=given["horizon"],
        gradient_steps=arguments.num_env * given["horizon"] // given["every"],
        target_update_interval=given["target_steps"],
        exploration_fraction=given["epsilon_steps"] / given["steps"],
        exploration_final_eps=given["epsilon"],
        max_grad_norm=given["max_grad_norm"],
        policy_kwargs={
            "features_extractor_class": SmallConvolutions,
            "features_extractor_kwargs": {"conv": given["conv"], "features": given["features"]},
            "net_arch": [],
        },
        device="cpu",
        seed=arguments.seed,
        stats_window_size=EVERY,  # as many episodes as can end between two lines
    )
    model.set_logger(Logger(None, []))  # its own would leave a folder behind
    updates = updates_of(arguments)
    updates.replay_bytes = replay_bytes(model)
    model.learn(given["steps"], callback=Report(updates))


if __name__ == "__main__":
    main()
