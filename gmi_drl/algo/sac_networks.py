"""The networks of SAC: a policy of numbers in [-1, 1], and two critics as one batched product."""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from gmi_drl.algo.distributions.tanh_gaussian import TanhGaussian
from gmi_drl.algo.networks.mlp import ACTIVATIONS, mlp
from gmi_drl.config.learners import SACConfig
from gmi_drl.workload import TaskSpec

CRITICS = 2


class TwinCritics(nn.Module):
    """Two networks from observation and action to a value, computed together.

    Args:
        inputs: Numbers of observation and action together.
        config: Layers.
    """

    def __init__(self, inputs: int, config: SACConfig) -> None:
        super().__init__()
        sizes = [inputs, *config.hidden, 1]
        self.weights = nn.ParameterList(_uniform(into, CRITICS, into, out) for into, out in pairwise(sizes))
        self.biases = nn.ParameterList(_uniform(into, CRITICS, 1, out) for into, out in pairwise(sizes))
        widths = config.hidden if config.layer_norm else ()
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(CRITICS, 1, width)) for width in widths)
        self.shifts = nn.ParameterList(nn.Parameter(torch.zeros(CRITICS, 1, width)) for width in widths)
        self.activation = ACTIVATIONS[config.activation]()

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """Values `[2, B]` of normalised observations `[B, O]` and actions `[B, A]`."""
        x = torch.cat((obs, action), -1).expand(CRITICS, -1, -1)
        last = len(self.weights) - 1
        for depth, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if depth < last and self.scales:
                normal = nn.functional.layer_norm(x, x.shape[-1:])
                x = torch.addcmul(self.shifts[depth], normal, self.scales[depth])
            if depth < last:
                x = self.activation(x)
        return x.squeeze(-1)


class SoftActorCritic(nn.Module):
    """Policy, weight of the entropy, and critics; an `ExploringPolicy`.

    Args:
        spec: Of a task with A numbers as action and a vector as observation.
        config: Layers.

    Attributes:
        observation: What it sees.
        distribution: Of the actions.
        exploration: The share of random actions, `[]`.
        log_alpha: Logarithm of the weight of the entropy, `[1]`.
    """

    exploration: Tensor

    def __init__(self, spec: TaskSpec, config: SACConfig) -> None:
        super().__init__()
        self.observation, self.distribution = spec.observation, TanhGaussian(spec.action)
        inputs, numbers = spec.observation.size, spec.action.numbers
        self.actor = mlp([inputs, *config.hidden, 2 * numbers], 0.01, config.activation)
        self.log_alpha = nn.Parameter(torch.full((1,), math.log(config.alpha)))
        self.critics = TwinCritics(inputs + numbers, config)
        self.register_buffer("exploration", torch.zeros(()), persistent=False)

    @property
    def actor_size(self) -> int:
        """Number of parameters before those of the critics."""
        return sum(parameter.numel() for parameter in self.actor_parameters())

    def actor_parameters(self) -> list[nn.Parameter]:
        """Those of the policy and the weight of the entropy."""
        return [*self.actor.parameters(), self.log_alpha]

    def parameters_in_order(self) -> list[nn.Parameter]:
        """Policy, weight of the entropy, critics."""
        return [*self.actor_parameters(), *self.critics.parameters()]

    def sample(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions `[B, A]` and their log densities `[B]`, by standard normal noise `[B, A]`."""
        return self.distribution.sample(self.actor(obs), noise)

    def act(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions `[..., A]` and means before tanh. Random ones are uniform in [-1, 1], made of the same noise."""
        params = self.actor(obs)
        action = self.distribution.actions(params, noise)
        uniform = torch.erf(noise / math.sqrt(2))
        return torch.lerp(action, uniform, self.exploration), self.distribution.mean(params)

    def mode(self, obs: Tensor) -> Tensor:
        """The most likely actions before tanh, by tanh."""
        return self.distribution.mean(self.actor(obs)).tanh()


def _uniform(inputs: int, *shape: int) -> nn.Parameter:
    """Weights as torch initialises linear layers."""
    bound = 1 / math.sqrt(inputs)
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))
