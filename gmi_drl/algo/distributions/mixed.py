"""Numbers and choices together, independent of each other given the observation: their joint density."""

import torch
from torch import Tensor

from gmi_drl.algo.distributions.categorical import Categorical
from gmi_drl.algo.distributions.gaussian import Gaussian
from gmi_drl.workload.spaces import Action


class Mixed:
    """Its params are the means of the numbers, then the logits of the choices; see `Distribution`."""

    entropy_is_constant = False

    def __init__(self, action: Action) -> None:
        self.action = action
        self._gaussian, self._categorical = Gaussian(Action(action.numbers)), Categorical(Action(0, action.categories))

    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device) -> Tensor:
        """See `Distribution`."""
        both = (self._gaussian.noise(shape, generator, device), self._categorical.noise(shape, generator, device))
        return torch.cat(both, -1)

    def sample(self, params: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
        """See `Distribution`."""
        (mean, logits), (normal, gumbel) = self._halves(params), self._halves(noise)
        numbers = self._gaussian.sample(mean, log_std, normal)
        return torch.cat((numbers, self._categorical.sample(logits, log_std, gumbel)), -1)

    def mode(self, params: Tensor) -> Tensor:
        """See `Distribution`."""
        mean, logits = self._halves(params)
        return torch.cat((mean, self._categorical.mode(logits)), -1)

    def log_prob(self, action: Tensor, params: Tensor, log_std: Tensor) -> Tensor:
        """See `Distribution`."""
        (numbers, choices), (mean, logits) = self._halves(action), self._halves(params)
        of_numbers = self._gaussian.log_prob(numbers, mean, log_std)
        return of_numbers + self._categorical.log_prob(choices, logits, log_std)

    def entropy(self, params: Tensor | None, log_std: Tensor) -> Tensor:
        """See `Distribution`."""
        assert params is not None
        mean, logits = self._halves(params)
        return self._gaussian.entropy(mean, log_std) + self._categorical.entropy(logits, log_std)

    def kl(self, old: Tensor, old_log_std: Tensor, params: Tensor, log_std: Tensor) -> Tensor:
        """See `Distribution`."""
        (old_mean, old_logits), (mean, logits) = self._halves(old), self._halves(params)
        of_numbers = self._gaussian.kl(old_mean, old_log_std, mean, log_std)
        return of_numbers + self._categorical.kl(old_logits, old_log_std, logits, log_std)

    def _halves(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """What belongs to the numbers and what to the choices, of the last dimension."""
        return row[..., : self.action.numbers], row[..., self.action.numbers :]
