"""A diagonal Gaussian through tanh, whose standard deviations depend on the observation."""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from gmi_drl.algo.distributions.gaussian import HALF_LOG_TWO_PI
from gmi_drl.workload.spaces import Action

LOG_STD = (-20.0, 2.0)
"""Bounds of the logarithm of a standard deviation."""


class TanhGaussian:
    """Actions in [-1, 1] (Haarnoja et al., arXiv 1812.05905, appendix C).

    Its params `[..., 2 A]` are A means and A logarithms of standard deviations, both before tanh.
    """

    def __init__(self, action: Action) -> None:
        self.action = action

    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device) -> Tensor:
        """Standard normal `[*shape, A]`."""
        return torch.randn(*shape, self.action.numbers, generator=generator, device=device)

    def mean(self, params: Tensor) -> Tensor:
        """Means before tanh, `[..., A]`."""
        return params[..., : self.action.numbers]

    def actions(self, params: Tensor, noise: Tensor) -> Tensor:
        """Actions `[..., A]` alone."""
        mean, log_std = params.chunk(2, -1)
        return torch.addcmul(mean, noise, log_std.clamp(*LOG_STD).exp()).tanh_()

    def sample(self, params: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions `[..., A]` and their log densities `[...]`, with gradients.

        log(1 - tanh(x)^2) is 2 (log 2 - x - softplus(-2 x)), which does not overflow.
        """
        mean, log_std = params.chunk(2, -1)
        log_std = log_std.clamp(*LOG_STD)
        before = torch.addcmul(mean, noise, log_std.exp())
        gaussian = -0.5 * noise.square() - log_std - HALF_LOG_TWO_PI
        stretch = 2 * (math.log(2) - before - softplus(-2 * before))
        return before.tanh(), (gaussian - stretch).sum(-1)
