"""The terms that a reward is the sum of."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

Terms = dict[str, Tensor]
"""The terms of a step's reward by name, float32 `[N]` each; they add up to the reward."""


class RewardTerms:
    """Sums of K reward terms over environments and steps.

    Args:
        names: Names of the terms.
        device: The device of the sums.
    """

    def __init__(self, names: Iterable[str], device: torch.device) -> None:
        self.names = tuple(names)
        self._sums = torch.zeros(len(self.names), dtype=torch.float64, device=device)

    def add(self, terms: Terms, left_out: Tensor) -> None:
        """Add the terms of a step, except where the mask `left_out` `[N]` is True. Does not wait for the device."""
        self._sums += torch.stack([*terms.values()]).masked_fill_(left_out, 0.0).sum(1, dtype=torch.float64)

    def pop_sums(self) -> Tensor:
        """Return the sums since the last call, float64 `[K]`, and set them to zero."""
        sums = self._sums.clone()
        self._sums.zero_()
        return sums

    def means(self, sums: Sequence[float], count: int) -> dict[str, float]:
        """The mean of each term by name, from its sum in `sums` `[K]` over `count` transitions."""
        return {name: total / count for name, total in zip(self.names, sums, strict=True)}


def terms_of(task: object) -> RewardTerms | None:
    """The reward terms of a task, or None if it does not sum them."""
    terms = getattr(task, "reward_terms", None)
    return terms if isinstance(terms, RewardTerms) else None


def replaced(terms: Mapping[str, Tensor], where: Tensor, name: str, value: float) -> Terms:
    """The terms with another one added: it alone counts, with `value`, where the mask `where` `[N]` is True."""
    others = {other: term.masked_fill(where, 0.0) for other, term in terms.items()}
    return {**others, name: where * value}
