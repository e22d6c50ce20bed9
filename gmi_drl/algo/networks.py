"""Policy and value networks: two separate MLPs (paper Table 6) and a diagonal Gaussian over actions."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor, nn

from gmi_drl.algo.elu import Elu
from gmi_drl.config.learners import OurConfig
from gmi_drl.config.learners.ppo import Activation
from gmi_drl.workload import TaskSpec

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)

ACTIVATIONS: dict[Activation, type[nn.Module]] = {"elu": Elu, "tanh": nn.Tanh}


def make_policy(spec: TaskSpec, config: OurConfig) -> "ActorCritic":
    """The policy and value networks of a configuration."""
    return ActorCritic(replace(spec, hidden=config.hidden), config.init_std, config.activation)


def mlp(sizes: Sequence[int], last_gain: float, activation: Activation) -> nn.Sequential:
    """Linear layers of the given sizes with the activation between them, orthogonal weights, zero biases."""
    layers: list[nn.Module] = []
    for depth, (width, next_width) in enumerate(pairwise(sizes), 2):
        is_last = depth == len(sizes)
        linear = nn.Linear(width, next_width)
        nn.init.orthogonal_(linear.weight, last_gain if is_last else math.sqrt(2))
        nn.init.zeros_(linear.bias)
        layers += [linear] if is_last else [linear, ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)


class ActorCritic(nn.Module):
    """The policy (mean and state-independent log standard deviation) and the value of a task.

    Parameters are ordered actor, log_std, critic: two contiguous parts of the flat vector, whose gradients are clipped
    apart.
    """

    def __init__(self, spec: TaskSpec, init_std: float = 1.0, activation: Activation = "elu") -> None:
        super().__init__()
        self.actor = mlp([spec.num_obs, *spec.hidden, spec.num_actions], 0.01, activation)
        self.log_std = nn.Parameter(torch.full((spec.num_actions,), math.log(init_std)))
        self.critic = mlp([spec.num_obs, *spec.hidden, 1], 1.0, activation)

    @property
    def actor_size(self) -> int:
        """Number of parameters of the policy: its network and its standard deviations."""
        return sum(p.numel() for p in self.actor.parameters()) + self.log_std.numel()

    def parameters_in_order(self) -> list[nn.Parameter]:
        """Actor, log_std, critic (`Module.parameters` would put log_std first)."""
        return [*self.actor.parameters(), self.log_std, *self.critic.parameters()]

    def act(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Sample `(action [..., A], mean [..., A])` for normalised observations `[..., O]`, noise standard normal."""
        mean = self.actor(obs)
        return torch.addcmul(mean, noise, self.log_std.exp()), mean

    def log_prob(self, action: Tensor, mean: Tensor) -> Tensor:
        """Log density `[...]` of actions `[..., A]` under the policy with this mean."""
        return self.log_density((action - mean) * (-self.log_std).exp())

    def log_density(self, distance: Tensor) -> Tensor:
        """Log density `[...]` of actions at a distance `[..., A]` from the mean, in standard deviations."""
        return -0.5 * distance.square().sum(-1) - (self.log_std + HALF_LOG_TWO_PI).sum()

    def value(self, obs: Tensor) -> Tensor:
        """Value `[...]` of normalised observations `[..., O]`."""
        return self.critic(obs).squeeze(-1)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        """Entropy of the action distribution, a scalar, the same for all states."""
        return (self.log_std + 0.5 + HALF_LOG_TWO_PI).sum()


def gaussian_kl(old_mean: Tensor, old_log_std: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """KL(old || new) `[N]` of diagonal Gaussians with means `[N, A]` and log standard deviations `[A]`."""
    ratio = (2 * (old_log_std - log_std)).exp()
    distance = (old_mean - mean).square() * (-2 * log_std).exp()
    return (log_std - old_log_std + 0.5 * (ratio + distance - 1)).sum(-1)
