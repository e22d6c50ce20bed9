"""Stable-Baselines3's PPO on worlds of PettingZoo, by given settings: the recipe of PettingZoo's pages, by supersuit.

Each agent of each world is an environment, and all have one policy.
"""

from importlib import import_module

import supersuit
from discrete_sb3 import train
from settings import read_settings
from stable_baselines3.common.vec_env import VecMonitor


def main() -> None:
    """Train by the settings given."""
    arguments = read_settings(__doc__)
    given = arguments.settings
    world = import_module(given["env_id"]).parallel_env()
    world.reset(seed=arguments.seed)
    rows = supersuit.pettingzoo_env_to_vec_env_v1(world)
    worlds = arguments.num_env // rows.num_envs
    envs = supersuit.concat_vec_envs_v1(rows, worlds, num_cpus=0, base_class="stable_baselines3")
    envs.seed = lambda seed=None: [seed] * envs.num_envs  # supersuit's has none, and Stable-Baselines3 asks for it
    train("MlpPolicy", VecMonitor(envs), arguments, {"net_arch": given["hidden"]})


if __name__ == "__main__":
    main()
