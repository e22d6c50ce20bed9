"""SKRL: PPO over gymnasium's vector environments, which step the environments one after the other."""

from tempfile import TemporaryDirectory
from typing import Any

import gymnasium
import settings
import torch
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from settings import Updates, mean, read_arguments
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.trainers.torch import SequentialTrainer
from torch import Tensor, nn


class OverError(Exception):
    """The time for training has passed."""


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Hidden layers with ELU and a linear end."""
    layers: list[nn.Module] = []
    for width, next_width in zip((inputs, *settings.HIDDEN), (*settings.HIDDEN, outputs), strict=True):
        layers += [nn.Linear(width, next_width), nn.ELU()]
    return nn.Sequential(*layers[:-1])


class Policy(GaussianMixin, Model):
    """The policy; its standard deviations hold for all observations."""

    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        GaussianMixin.__init__(self)
        self.net = mlp(self.num_observations, self.num_actions)
        self.log_std = nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Tensor, dict[str, Any]]:
        """Means of the actions."""
        return self.net(inputs["observations"]), {"log_std": self.log_std}


class Value(DeterministicMixin, Model):
    """The value."""

    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = mlp(self.num_observations, 1)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[Tensor, dict[str, Any]]:
        """Values of the observations."""
        return self.net(inputs["observations"]), {}


class Reporting(PPO):
    """PPO that tells of every update, and ends the training when its time is over."""

    updates: Updates
    worlds: RecordEpisodeStatistics

    def update(self, *, timestep: int, timesteps: int) -> None:
        """One update."""
        super().update(timestep=timestep, timesteps=timesteps)
        returns = list(self.worlds.return_queue)
        self.updates.report((timestep + 1) * self.worlds.num_envs, mean(returns), len(returns))
        if self.updates.is_over:
            raise OverError


def configuration(horizon: int, folder: str) -> PPO_CFG:
    """What all peers train with, as SKRL names it."""
    cfg = PPO_CFG(
        rollouts=horizon,
        learning_epochs=settings.EPOCHS,
        mini_batches=settings.SAMPLES // settings.MINI_BATCH,
        discount_factor=settings.GAMMA,
        gae_lambda=settings.LAMBDA,
        learning_rate=settings.LEARNING_RATE,
        grad_norm_clip=settings.MAX_GRAD_NORM,
        ratio_clip=settings.CLIP,
        value_clip=0.0,
        value_loss_scale=settings.VALUE_COEF,
    )
    cfg.experiment.directory, cfg.experiment.write_interval, cfg.experiment.checkpoint_interval = folder, 0, 0
    return cfg


def main() -> None:
    """Train for the time given."""
    arguments = read_arguments(__doc__)
    num_env, horizon = arguments.num_env, settings.SAMPLES // arguments.num_env
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    worlds = RecordEpisodeStatistics(gymnasium.make_vec("Ant-v5", num_envs=num_env, vectorization_mode="sync"))
    env = wrap_env(worlds)
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "device": "cpu"}
    models = {"policy": Policy(**spaces), "value": Value(**spaces)}
    memory = RandomMemory(memory_size=horizon, num_envs=num_env, device="cpu")
    with TemporaryDirectory() as folder:
        agent = Reporting(models=models, memory=memory, cfg=configuration(horizon, folder), **spaces)
        agent.updates, agent.worlds = Updates(arguments.seconds), worlds
        agent.updates.weights = sum(weights.numel() for model in models.values() for weights in model.parameters())
        trainer = SequentialTrainer(
            env=env, agents=agent, cfg={"timesteps": 10**9, "headless": True, "disable_progressbar": True}
        )
        try:
            trainer.train()
        except OverError:
            worlds.close()


if __name__ == "__main__":
    main()
