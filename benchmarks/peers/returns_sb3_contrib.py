"""RecurrentPPO of sb3-contrib with its own settings on CartPole whose velocities are hidden, for so many steps.

An update has 2048 steps in all, as with one environment by its default.
"""

import sys
from pathlib import Path

import torch
from returns_sb3 import ReportEnded
from sb3_contrib import RecurrentPPO
from settings import SAMPLES, Updates, make_parser
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger

sys.path.append(str(Path(__file__).resolve().parents[2] / "gmi_drl" / "benchmarks" / "cases" / "learning"))


def main() -> None:
    """Train for the steps given, or as long as the time allows."""
    parser = make_parser(__doc__)
    parser.add_argument("--env-steps", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    envs = make_vec_env("hidden_velocities:HiddenCartPole-v1", arguments.num_env, seed=arguments.seed)
    model = RecurrentPPO(
        "MlpLstmPolicy",
        envs,
        n_steps=SAMPLES // arguments.num_env,
        device="cpu",
        seed=arguments.seed,
        stats_window_size=SAMPLES,  # as many episodes as can end in an update
    )
    model.set_logger(Logger(None, []))  # its own would leave a folder behind
    model.learn(arguments.env_steps, callback=ReportEnded(Updates(arguments.seconds)))


if __name__ == "__main__":
    main()
