"""Distributions over actions, from the numbers that a network gives for each observation."""

from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.algo.distributions.categorical import Categorical
from gmi_drl.algo.distributions.gaussian import Gaussian
from gmi_drl.algo.distributions.mixed import Mixed
from gmi_drl.workload.spaces import Action

__all__ = ["Categorical", "Distribution", "Gaussian", "Mixed", "distribution_of"]


class Distribution(Protocol):
    """A family of distributions over actions `[..., A]`.

    `params [..., P]` are the numbers that a network gives for each observation, `log_std [C]` those that hold for all
    observations: of an action's C continuous numbers. All methods are functions of them, with gradients.
    """

    action: Action
    entropy_is_constant: bool
    """Whether the entropy is the same for all observations."""

    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device) -> Tensor:
        """Random numbers `[*shape, P]` that `sample` takes. Zeros in their place give the most likely action."""

    def sample(self, params: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
        """Actions `[..., A]`."""

    def mode(self, params: Tensor) -> Tensor:
        """The most likely actions `[..., A]`."""

    def log_prob(self, action: Tensor, params: Tensor, log_std: Tensor) -> Tensor:
        """Log density `[...]` of actions `[..., A]`."""

    def entropy(self, params: Tensor | None, log_std: Tensor) -> Tensor:
        """Entropy `[...]`; a scalar, for which params are not needed, if it is constant."""

    def kl(self, old: Tensor, old_log_std: Tensor, params: Tensor, log_std: Tensor) -> Tensor:
        """KL(old || new) `[...]`."""


def distribution_of(action: Action) -> Distribution:
    """The distribution for a kind of action."""
    if not action.categories:
        return Gaussian(action)
    return Mixed(action) if action.numbers else Categorical(action)
