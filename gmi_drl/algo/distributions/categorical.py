"""One choice or several independent ones, each among its own categories."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from gmi_drl.workload.spaces import Action

MASKED = -1e9
"""The logit of a category that is not allowed: its probability is 0, its gradient too, and nothing becomes NaN."""

TINY = 1e-30
"""Keeps the noise finite where the generator draws 0."""


class Categorical:
    """Its params are the logits of all choices, one after the other; see `Distribution`.

    Choices of unlike sizes are padded to the largest by logits of `MASKED`, so that all are computed at once.
    """

    entropy_is_constant = False

    def __init__(self, action: Action) -> None:
        self.action = action
        sizes = action.categories
        self._widest, self._is_even = max(sizes), len(set(sizes)) == 1

    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device) -> Tensor:
        """Of Gumbel's distribution; see `Distribution`."""
        exponential = torch.empty(*shape, self.action.params, device=device).exponential_(generator=generator)
        return exponential.clamp_(min=TINY).log_().neg_()

    def sample(self, params: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
        """See `Distribution`: the largest logit with Gumbel noise added (Maddison et al., arXiv 1411.0030)."""
        return self.mode(params + noise)

    def mode(self, params: Tensor) -> Tensor:
        """See `Distribution`."""
        return self.by_choice(params).argmax(-1).float()

    def log_prob(self, action: Tensor, params: Tensor, log_std: Tensor) -> Tensor:
        """See `Distribution`."""
        logs = self.by_choice(params).log_softmax(-1)
        return logs.gather(-1, action.long().unsqueeze(-1)).squeeze(-1).sum(-1)

    def entropy(self, params: Tensor | None, log_std: Tensor) -> Tensor:
        """See `Distribution`."""
        assert params is not None
        logs = self.by_choice(params).log_softmax(-1)
        return -(logs.exp() * logs).sum((-2, -1))

    def kl(self, old: Tensor, old_log_std: Tensor, params: Tensor, log_std: Tensor) -> Tensor:
        """See `Distribution`."""
        before, now = (self.by_choice(logits).log_softmax(-1) for logits in (old, params))
        return (before.exp() * (before - now)).sum((-2, -1))

    def by_choice(self, params: Tensor) -> Tensor:
        """Logits `[..., choices, widest]` of params `[..., P]`."""
        if self._is_even:
            return params.reshape(*params.shape[:-1], len(self.action.categories), self._widest)
        choices = torch.split(params, list(self.action.categories), -1)
        return torch.stack([pad(one, (0, self._widest - one.shape[-1]), value=MASKED) for one in choices], -2)

    def by_params(self, numbers: Tensor) -> Tensor:
        """Numbers of logits `[..., choices, widest]` as params `[..., P]`: `by_choice` backwards."""
        if self._is_even:
            return numbers.flatten(-2)
        return torch.cat([numbers[..., n, :size] for n, size in enumerate(self.action.categories)], -1)
