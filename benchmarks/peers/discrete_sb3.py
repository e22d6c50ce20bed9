"""Stable-Baselines3's PPO on a task with choices, by given settings, until so many steps are done or time is over.

Its environments are gymnasium's in its DummyVecEnv, as its users run them; with `normalise` in its VecNormalize.
"""

import json

import torch
from returns_sb3 import ReportEnded
from settings import make_parser
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv, VecNormalize


def main() -> None:
    """Train by the settings given."""
    parser = make_parser(__doc__)
    parser.add_argument("--settings", type=json.loads, required=True, help="fields of discrete_tasks.Settings, as JSON")
    arguments = parser.parse_args()
    given = arguments.settings
    torch.set_num_threads(arguments.threads)
    envs: VecEnv = make_vec_env(given["env_id"], arguments.num_env, seed=arguments.seed)
    model = PPO(
        "MlpPolicy",
        VecNormalize(envs, gamma=given["gamma"]) if given["normalise"] else envs,
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
        policy_kwargs={"net_arch": given["hidden"]},
        device="cpu",
        seed=arguments.seed,
        stats_window_size=given["horizon"] * arguments.num_env,  # as many episodes as can end in an update
    )
    model.set_logger(Logger(None, []))  # its own would leave a folder behind
    model.learn(given["steps"], callback=ReportEnded(arguments.seconds))


if __name__ == "__main__":
    main()
