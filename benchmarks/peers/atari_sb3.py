"""Stable-Baselines3's PPO on an Atari game of ale-py, by given settings, with its own wrappers and NatureCNN."""

import ale_py
import gymnasium
from discrete_sb3 import train
from settings import read_settings
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack, VecTransposeImage


def main() -> None:
    """Train by the settings given."""
    gymnasium.register_envs(ale_py)
    arguments = read_settings(__doc__)
    given = arguments.settings
    game = given["env_id"].replace("-v5", "NoFrameskip-v4")
    envs = VecFrameStack(make_atari_env(game, arguments.num_env, seed=arguments.seed), n_stack=4)
    train("CnnPolicy", VecTransposeImage(envs), arguments, {"net_arch": []})


if __name__ == "__main__":
    main()
