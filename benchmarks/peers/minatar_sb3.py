"""Stable-Baselines3's PPO on a game of MinAtar, by given settings, with convolutions as small as its pictures."""

from typing import Any

import gymnasium
import minatar.gym
import numpy as np
from discrete_sb3 import train
from settings import read_settings
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn


class SmallConvolutions(BaseFeaturesExtractor):
    """Convolutions and a layer, with ReLU."""

    def __init__(self, seen: gymnasium.spaces.Box, conv: list[list[int]], features: int) -> None:
        super().__init__(seen, features)
        layers: list[nn.Module] = []
        channels, height, width = seen.shape
        for out, kernel, stride in conv:
            layers += [nn.Conv2d(channels, out, kernel, stride), nn.ReLU()]
            channels, height, width = out, (height - kernel) // stride + 1, (width - kernel) // stride + 1
        self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * width, features), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        """Features `[N, F]` of pictures `[N, C, H, W]`."""
        return self.layers(observations)


def as_picture(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """An environment whose observations Stable-Baselines3 takes for pictures: bytes, channels first."""
    height, width, channels = env.observation_space.shape
    seen = gymnasium.spaces.Box(0, 255, (channels, height, width), np.uint8)
    return gymnasium.wrappers.TransformObservation(env, lambda obs: obs.transpose(2, 0, 1).astype(np.uint8) * 255, seen)


def main() -> None:
    """Train by the settings given."""
    minatar.gym.register_envs()
    arguments = read_settings(__doc__)
    given = arguments.settings
    envs = make_vec_env(lambda: as_picture(gymnasium.make(given["env_id"])), arguments.num_env, seed=arguments.seed)
    network = {"features_extractor_class": SmallConvolutions, "net_arch": []}
    more = {"conv": given["conv"], "features": given["features"]}
    train("CnnPolicy", envs, arguments, {**network, "features_extractor_kwargs": more})


if __name__ == "__main__":
    main()
