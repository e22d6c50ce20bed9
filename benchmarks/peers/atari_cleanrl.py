"""PPO in one file, in the manner of CleanRL's `ppo_atari_envpool.py`, on an Atari game of envpool, by given settings.

Lives are ends and rewards are clipped for learning; the returns that are told are of whole games and own rewards.
"""

import numpy as np
import torch
from discrete_cleanrl import Worlds, make_envs, train
from settings import read_settings
from torch import Tensor, nn

GAIN = 2**0.5


class Shared(nn.Module):
    """Convolutions and a layer, for policy and value together; orthogonal weights."""

    def __init__(self, channels: int, side: int, conv: list[list[int]], features: int, choices: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for out, kernel, stride in conv:
            layers += [orthogonal(nn.Conv2d(channels, out, kernel, stride), GAIN), nn.ReLU()]
            channels, side = out, (side - kernel) // stride + 1
        linear = orthogonal(nn.Linear(channels * side * side, features), GAIN)
        self.trunk = nn.Sequential(*layers, nn.Flatten(), linear, nn.ReLU())
        self.actor = orthogonal(nn.Linear(features, choices), 0.01)
        self.critic = orthogonal(nn.Linear(features, 1), 1.0)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `[N, A]` and values `[N]` of pictures `[N, C, H, W]` of bytes."""
        features = self.trunk(obs / 255.0)
        return self.actor(features), self.critic(features).squeeze(-1)


def orthogonal(layer: nn.Conv2d | nn.Linear, gain: float) -> nn.Module:
    """The layer with orthogonal weights."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Games(Worlds):
    """Worlds whose own rewards and ends are not those of learning."""

    def step(self, action: Tensor) -> Tensor:
        """See `Worlds.step`."""
        obs, reward, terminated, truncated, info = self.envs.step(action.numpy().astype(np.int32))
        self.running += info["reward"]
        ended = info["terminated"].astype(bool) | truncated
        if ended.any():
            self.returns += self.running[ended].tolist()
            self.running[ended] = 0
        self.obs, self.done = torch.from_numpy(obs).float(), torch.from_numpy(terminated | truncated).float()
        return torch.from_numpy(reward).float()


def main() -> None:
    """Train on a game."""
    arguments = read_settings(__doc__)
    given, num_env = arguments.settings, arguments.num_env
    envs = make_envs(arguments, episodic_life=True, reward_clip=True)
    channels, side, _ = envs.observation_space.shape
    network = Shared(channels, side, given["conv"], given["features"], int(envs.action_space.n))
    worlds = Games(envs, torch.from_numpy(envs.reset()[0]).float(), torch.zeros(num_env), np.zeros(num_env))
    train(network, worlds, arguments)


if __name__ == "__main__":
    main()
