"""What a reward is made of, term by term."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

Terms = dict[str, Tensor]
"""Terms of the rewards of a step by name, float32 `[N]` each; they add up to the reward."""


class RewardTerms:
    """Sums of terms over worlds and steps, on their device.

    Args:
        names: Of the terms, K of them.
        device: Where they are.
    """

    def __init__(self, names: Iterable[str], device: torch.device) -> None:
        self.names = tuple(names)
        self._sums = torch.zeros(len(self.names), dtype=torch.float64, device=device)

    def add(self, terms: Terms, left_out: Tensor) -> None:
        """Add a step, without the worlds of a mask `[N]`. Does not wait for the device."""
        self._sums += torch.stack([*terms.values()]).masked_fill_(left_out, 0.0).sum(1, dtype=torch.float64)

    def pop_sums(self) -> Tensor:
        """Sums since the last call, float64 `[K]`."""
        sums = self._sums.clone()
        self._sums.zero_()
        return sums

    def means(self, sums: Sequence[float], count: int) -> dict[str, float]:
        """Sums `[K]`, of this task or of all GMIs, over a count of transitions, by name."""
        return {name: total / count for name, total in zip(self.names, sums, strict=True)}


def terms_of(task: object) -> RewardTerms | None:
    """Those of a task that tells them."""
    terms = getattr(task, "reward_terms", None)
    return terms if isinstance(terms, RewardTerms) else None


def replaced(terms: Mapping[str, Tensor], where: Tensor, name: str, value: float) -> Terms:
    """The terms where a mask `[N]` is False; where it is True nothing but another one, of this name and value."""
    others = {other: term.masked_fill(where, 0.0) for other, term in terms.items()}
    return {**others, name: where * value}
