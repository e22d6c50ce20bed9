"""Stable-Baselines3's PPO as its users run it on a MuJoCo task, until so many steps are done.

Its own defaults, but for 2048 samples an update in all, with observations and rewards normalised; the returns are
those that the task gave, of the episodes that have ended since the last update.
"""

import torch
from settings import SAMPLES, Updates, make_parser
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecNormalize
from train_sb3 import Report


class ReportEnded(Report):
    """Tells of the episodes of each update, not of a moving window."""

    def _on_rollout_start(self) -> None:
        super()._on_rollout_start()
        assert self.model.ep_info_buffer is not None
        self.model.ep_info_buffer.clear()

    def _on_training_end(self) -> None:
        """No rollout follows the last update."""
        if not self.updates.is_over:
            super()._on_rollout_start()


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
        stats_window_size=SAMPLES,  # as many episodes as can end in an update
    )
    model.set_logger(Logger(None, []))  # its own would leave a folder behind
    model.learn(arguments.env_steps, callback=ReportEnded(Updates(arguments.seconds)))


if __name__ == "__main__":
    main()
