"""Stable-Baselines3's PPO on a task with choices, by given settings, until so many steps are done or time is over.

Its environments are gymnasium's in its DummyVecEnv, as its users run them; with `normalise` in its VecNormalize.
"""

import argparse
from typing import Any

import torch
from returns_sb3 import ReportEnded
from settings import read_settings, updates_of
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv, VecNormalize


def train(policy: str, envs: VecEnv, arguments: argparse.Namespace, policy_kwargs: dict[str, Any]) -> None:
    """Train by the settings given."""
    torch.set_num_threads(arguments.threads)
    given = arguments.settings
    model = PPO(
        policy,
        envs,
        n_steps=given["horizon"],
        batch_size=given["batch"],
        n_epochs=given["epochs"],
        learning_rate=given["learning_rate"],
        gamma=given["gamma"],
        gae_lambda=given["lam"],
        clip_range=given["clip"],
        ent_coef=given["entropy"],
        vf_coef=given["value"],
        max_grad_norm=given["max_grad_norm"],
        policy_kwargs=policy_kwargs,
        device="cpu",
        seed=arguments.seed,
        stats_window_size=given["horizon"] * envs.num_envs,  # as many episodes as can end in an update
    )
    model.set_logger(Logger(None, []))  # its own would leave a folder behind
    model.learn(given["steps"], callback=ReportEnded(updates_of(arguments)))


def main() -> None:
    """Train on one of gymnasium's own tasks."""
    arguments = read_settings(__doc__)
    given = arguments.settings
    envs: VecEnv = make_vec_env(given["env_id"], arguments.num_env, seed=arguments.seed)
    envs = VecNormalize(envs, gamma=given["gamma"]) if given["normalise"] else envs
    train("MlpPolicy", envs, arguments, {"net_arch": given["hidden"]})


if __name__ == "__main__":
    main()
