"""A diagonal Gaussian, whose standard deviations hold for all observations."""

import math

import torch
from torch import Tensor

from gmi_drl.workload.spaces import Action

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class Gaussian:
    """Its params are the means; see `Distribution`."""

    entropy_is_constant = True

    def __init__(self, action: Action) -> None:
        self.action = action

    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device) -> Tensor:
        """Standard normal; see `Distribution`."""
        return torch.randn(*shape, self.action.numbers, generator=generator, device=device)

    def sample(self, params: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
        """See `Distribution`."""
        return torch.addcmul(params, noise, log_std.exp())

    def mode(self, params: Tensor) -> Tensor:
        """See `Distribution`."""
        return params

    def log_prob(self, action: Tensor, params: Tensor, log_std: Tensor) -> Tensor:
        """See `Distribution`."""
        return self.log_density((action - params) * (-log_std).exp(), log_std)

    @staticmethod
    def log_density(distance: Tensor, log_std: Tensor) -> Tensor:
        """Log density `[...]` of actions at a distance `[..., A]` from the mean, in standard deviations."""
        return -0.5 * distance.square().sum(-1) - (log_std + HALF_LOG_TWO_PI).sum()

    def entropy(self, params: Tensor | None, log_std: Tensor) -> Tensor:
        """See `Distribution`: a scalar."""
        return (log_std + 0.5 + HALF_LOG_TWO_PI).sum()

    def kl(self, old: Tensor, old_log_std: Tensor, params: Tensor, log_std: Tensor) -> Tensor:
        """See `Distribution`."""
        ratio = (2 * (old_log_std - log_std)).exp()
        distance = (old - params).square() * (-2 * log_std).exp()
        return (log_std - old_log_std + 0.5 * (ratio + distance - 1)).sum(-1)
