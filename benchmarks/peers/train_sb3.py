"""Stable-Baselines3: PPO over its DummyVecEnv, which steps the environments one after the other.

Its SubprocVecEnv was slower on two cores: the learner shares them with the processes, which wait for each other in
every step.
"""

import settings
import torch
from settings import Updates, mean, read_arguments
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger


class Report(BaseCallback):
    """Tells of every update when the next rollout begins, and ends the training there."""

    def __init__(self, updates: Updates) -> None:
        super().__init__()
        self.updates = updates

    def _on_training_start(self) -> None:
        self.updates.weights = sum(weights.numel() for weights in self.model.policy.parameters())

    def _on_rollout_start(self) -> None:
        if self.num_timesteps:
            returns = [episode["r"] for episode in self.model.ep_info_buffer or ()]
            self.updates.report(self.num_timesteps, mean(returns), len(returns))

    def _on_step(self) -> bool:
        return not self.updates.is_over


def main() -> None:
    """Train for the time given."""
    arguments = read_arguments(__doc__)
    torch.set_num_threads(arguments.threads)
    model = PPO(
        "MlpPolicy",
        make_vec_env("Ant-v5", arguments.num_env, seed=arguments.seed),
        n_steps=settings.SAMPLES // arguments.num_env,
        batch_size=settings.MINI_BATCH,
        n_epochs=settings.EPOCHS,
        learning_rate=settings.LEARNING_RATE,
        gamma=settings.GAMMA,
        gae_lambda=settings.LAMBDA,
        clip_range=settings.CLIP,
        vf_coef=settings.VALUE_COEF,
        max_grad_norm=settings.MAX_GRAD_NORM,
        policy_kwargs={
            "net_arch": {"pi": list(settings.HIDDEN), "vf": list(settings.HIDDEN)},
            "activation_fn": torch.nn.ELU,
        },
        device="cpu",
        seed=arguments.seed,
    )
    model.set_logger(Logger(None, []))  # its own would leave a folder behind
    model.learn(10**12, callback=Report(Updates(arguments.seconds)))


if __name__ == "__main__":
    main()
