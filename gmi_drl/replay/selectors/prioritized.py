"""Prioritized experience replay (Schaul et al. 2015), by the rules of Reverb."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import index_of_slots
from gmi_drl.replay.selectors.base import Selector, first_of_each, too_few
from gmi_drl.replay.selectors.host_sum_tree import HostSumTree

DIGITS = 290
"""Weights are at most 10 to this power: sums of 1e18 of them are numbers, too."""


class Prioritized(Selector):
    """An item is drawn with the probability p**C / sum of p**C. If all priorities are 0, each is as likely.

    Args:
        exponent: C. A priority of 0 is never drawn beside others, also with C = 0.

    Attributes:
        most_priority: Sums of the weights of higher ones would be no numbers.

    Raises:
        UsageError: if the exponent is negative.
    """

    def __init__(self, exponent: float = 1.0) -> None:
        if not exponent >= 0:
            raise UsageError(f"the exponent of priorities must be 0 or more, not {exponent}")
        self.exponent, self.most_priority = exponent, most_priority(exponent)

    def __str__(self) -> str:
        return f"Prioritized({self.exponent})"

    def open(self, capacity: int) -> None:
        """Make room for slots from 0 to `capacity - 1`."""
        self._tree = HostSumTree(capacity)
        self._is_there = torch.zeros(capacity, dtype=torch.bool)
        super().open(capacity)

    def clear(self) -> None:
        """All items are gone."""
        self._tree.clear()
        self._is_there.zero_()

    def inserted(self, slots: Tensor, priorities: Tensor) -> None:
        """Give them weights."""
        self._is_there.numpy()[index_of_slots(slots)] = True
        self._tree.set(slots, weights_of(priorities, self.exponent))

    def updated(self, slots: Tensor, priorities: Tensor) -> None:
        """Give them other weights."""
        self._tree.set(slots, weights_of(priorities, self.exponent))

    def deleted(self, slots: Tensor) -> None:
        """Give them the weight 0."""
        self._is_there.numpy()[index_of_slots(slots)] = False
        self._tree.set(slots, torch.zeros(len(slots), dtype=torch.float64))

    def select(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw with replacement."""
        if not self._tree.sum:
            there = self._is_there.nonzero().flatten()
            drawn = torch.randint(len(there), (count,), generator=generator)
            return there[drawn], torch.full((count,), 1 / len(there), dtype=torch.float64)
        slots = self._tree.draw(count, generator)
        return slots, torch.from_numpy(self._tree.weights.take(slots.numpy()) / self._tree.sum)

    def select_distinct(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw without replacement: what was drawn has no weight for the rest of the draws."""
        if not self._tree.sum:
            there = self._is_there.nonzero().flatten()
            if count > len(there):
                raise too_few(len(there), count)
            drawn = torch.randperm(len(there), generator=generator)[:count]
            return there[drawn], torch.full((count,), 1 / len(there), dtype=torch.float64)
        total, chosen, weights = self._tree.sum, torch.empty(0, dtype=torch.int64), self._tree.leaves
        taken = torch.empty(0, dtype=torch.float64)
        try:
            while len(chosen) < count and self._tree.sum:
                drawn = self._tree.draw(count - len(chosen), generator)
                new = drawn[first_of_each(drawn)]
                chosen, taken = torch.cat((chosen, new)), torch.cat((taken, weights[new]))
                self._tree.set(new, torch.zeros(len(new), dtype=torch.float64))
        finally:
            self._tree.set(chosen, taken)
        if len(chosen) < count:
            raise too_few(len(chosen), count)
        return chosen, taken / total

    def state_dict(self) -> dict[str, Tensor]:
        """Weights with their sums, and which items are there."""
        levels = {f"level_{number}": level.clone() for number, level in enumerate(self._tree.levels)}
        return levels | {"is_there": self._is_there.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over weights."""
        self._tree.load([state[f"level_{number}"] for number in range(len(self._tree.levels))])
        self._is_there.copy_(state["is_there"])


def most_priority(exponent: float) -> float:
    """The highest priority whose power is no weight above 1e290."""
    return 10.0 ** min(308.0, DIGITS / exponent) if exponent else 1e308


def weights_of(priorities: Tensor, exponent: float) -> Tensor:
    """p**C, and 0 for 0 whatever C is; float64 as the priorities."""
    if exponent == 1:
        return priorities
    if not exponent:
        return (priorities > 0).to(torch.float64)
    if priorities.device.type == "cpu":  # numpy's power takes a third of the time
        return torch.from_numpy(np.power(priorities.numpy(), exponent))
    return priorities.pow(exponent)
