"""Stable-Baselines3's PPO as its users run it on a MuJoCo task, until so many steps are done.

Its own defaults, with observations and rewards normalised; the returns are those that the task gave.
"""

import torch
from settings import SAMPLES, make_parser
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecNormalize
from train_sb3 import Report


def main() -> None:
    """Train for the steps given, or as long as the time allows."""
    parser = make_parser(__doc__)
    parser.add_argument("--env-id", required=True)
    parser.add_argument("--env-steps", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    envs = VecNormalize(make_vec_env(arguments.env_id, arguments.num_env, seed=arguments.seed))
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=SAMPLES // arguments.num_env,
        device="cpu",
        seed=arguments.seed,
        stats_window_size=arguments.num_env,  # returns of the last episode of each, not of the last hundred
    )
    model.set_logger(Logger(None, []))  # its own would leave a folder behind
    model.learn(arguments.env_steps, callback=Report(arguments.seconds))


if __name__ == "__main__":
    main()
