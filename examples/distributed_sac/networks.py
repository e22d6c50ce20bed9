"""A soft actor-critic in one file (Haarnoja et al., arXiv 1812.05905), for a task of few numbers."""

import copy

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

GAMMA, TAU, ALPHA = 0.9, 0.05, 0.02


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Two hidden layers of 32."""
    return nn.Sequential(nn.Linear(inputs, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, outputs))


class Policy(nn.Module):
    """A Gaussian, squashed into [-1, 1]."""

    def __init__(self, observations: int, actions: int) -> None:
        super().__init__()
        self.net = mlp(observations, 2 * actions)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Actions `[B, A]`, and the logarithms of their densities `[B]`."""
        mean, log_std = self.net(observation).chunk(2, -1)
        normal = Normal(mean, log_std.clamp(-4, 1).exp())
        raw = normal.rsample()
        action = raw.tanh()
        return action, (normal.log_prob(raw) - torch.log(1 - action**2 + 1e-6)).sum(-1)

    def best(self, observation: Tensor) -> Tensor:
        """Actions without noise."""
        return self.net(observation).chunk(2, -1)[0].tanh()

    def variables(self) -> list[np.ndarray]:
        """All parameters, for VARIABLE_CONTAINER."""
        return [parameter.detach().numpy() for parameter in self.parameters()]

    def load_variables(self, variables: list[np.ndarray]) -> None:
        """Take over what `variables` has returned."""
        with torch.no_grad():
            for parameter, value in zip(self.parameters(), variables, strict=True):
                parameter.copy_(torch.from_numpy(value))


class Learner:
    """The policy, two critics and their slow copies."""

    def __init__(self, observations: int, actions: int) -> None:
        self.policy = Policy(observations, actions)
        self.critics = nn.ModuleList(mlp(observations + actions, 1) for _ in range(2))
        self.targets = copy.deepcopy(self.critics)
        self._policy_optimizer = torch.optim.Adam(self.policy.parameters(), 3e-3)
        self._critic_optimizer = torch.optim.Adam(self.critics.parameters(), 3e-3)

    def update(self, observation: Tensor, action: Tensor, reward: Tensor, next_observation: Tensor) -> None:
        """Learn from a batch of transitions `[B, ...]`."""
        with torch.no_grad():
            next_action, log_density = self.policy(next_observation)
            follows = torch.cat((next_observation, next_action), -1)
            value = torch.min(*(target(follows).squeeze(-1) for target in self.targets)) - ALPHA * log_density
            wanted = reward + GAMMA * value
        taken = torch.cat((observation, action), -1)
        loss = sum(((critic(taken).squeeze(-1) - wanted) ** 2).mean() for critic in self.critics)
        self._step(self._critic_optimizer, loss)
        new_action, log_density = self.policy(observation)
        tried = torch.cat((observation, new_action), -1)
        value = torch.min(*(critic(tried).squeeze(-1) for critic in self.critics))
        self._step(self._policy_optimizer, (ALPHA * log_density - value).mean())
        with torch.no_grad():
            for target, critic in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
                target.lerp_(critic, TAU)

    @staticmethod
    def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
