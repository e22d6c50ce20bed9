"""The interface of a selector."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmi_drl.errors import UsageError

ROUNDS = 1000
"""Draws anew for distinct items, after which too few items can be drawn."""


class Selector(ABC):
    """Follows what happens to the items of a table, and selects some. It knows slots and priorities, never data.

    A table calls `open` once, and all methods under its lock. Slots are int64 `[n]`, priorities float64 `[n]`, all on
    the CPU; no slot is twice in a batch, except in `updated`, where the last priority counts.
    """

    evicts_in_batches: ClassVar[bool] = False
    """Whether `select_distinct(n)` is what n selections with a deletion after each would be. If not, tables evict items
    one by one."""

    most_priority: float = sys.float_info.max
    """The highest priority that it takes; tables refuse higher ones."""

    def __str__(self) -> str:
        """Its class with its arguments: what must be the same where a checkpoint is restored."""
        return type(self).__name__

    def open(self, capacity: int) -> None:
        """Make room for slots from 0 to `capacity - 1`."""
        self.capacity = capacity
        self.clear()

    @abstractmethod
    def clear(self) -> None:
        """All items are gone."""

    @abstractmethod
    def inserted(self, slots: Tensor, priorities: Tensor) -> None:
        """Items are new."""

    @abstractmethod
    def deleted(self, slots: Tensor) -> None:
        """Items are gone."""

    def updated(self, slots: Tensor, priorities: Tensor) -> None:  # noqa: B027 - many do not care
        """Items have other priorities."""

    @abstractmethod
    def select(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Select `count` items, one after the other, from all each time. There is an item.

        Returns:
            Slots int64 `[count]`, and the probability float64 `[count]` with which each was selected.
        """

    def select_distinct(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Select `count` items, none twice: what is drawn twice is drawn anew, which is exact.

        Returns:
            As `select`: probabilities are those of a first draw.

        Raises:
            UsageError: if fewer items can be drawn, with both numbers.
        """
        return draw_distinct(lambda more: self.select(more, generator), count)

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """Everything that later selections depend on, except generators. Never changed later."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a `state_dict` of the same class and capacity."""


def draw_distinct(draw: Callable[[int], tuple[Tensor, Tensor]], count: int) -> tuple[Tensor, Tensor]:
    """Draw until `count` are distinct, keeping the first of each in the order of the draws.

    Raises:
        UsageError: if `ROUNDS` were not enough.
    """
    slots, probabilities = draw(count)
    for _ in range(ROUNDS):
        first = first_of_each(slots)
        slots, probabilities = slots[first], probabilities[first]
        if len(slots) == count:
            return slots, probabilities
        more = draw(count - len(slots))
        slots, probabilities = torch.cat((slots, more[0])), torch.cat((probabilities, more[1]))
    raise too_few(len(first_of_each(slots)), count)


def first_of_each(slots: Tensor) -> Tensor:
    """The places at which a slot is for the first time, ascending."""
    values, inverse = torch.unique(slots, return_inverse=True)
    places = torch.full((len(values),), len(slots))
    return places.scatter_reduce_(0, inverse, torch.arange(len(slots)), "amin").sort().values


def too_few(can: int, wanted: int) -> UsageError:
    """The error for more distinct items than can be drawn."""
    return UsageError(f"{wanted} distinct items are wanted, but only {can} can be drawn: take fewer, or not distinct")


def check_priorities(values: NDArray[np.float64], most: float) -> float:
    """Refuse priorities that a selector cannot take.

    Args:
        values: Of any shape.
        most: The highest that it takes.

    Returns:
        The highest of them; 0 if there is none.

    Raises:
        UsageError: if one is negative, no finite number, or above `most`.
    """
    if not values.size:
        return 0.0
    highest = float(values.max())
    if values.min() >= 0 and highest <= most:  # neither if one is no number
        return highest
    wrong = float(values[~((values >= 0) & (values <= most))].flat[0])
    if most < wrong < np.inf:
        raise UsageError(f"a priority must be {most:.3g} at most, not {wrong:g}: sums of its power would be no numbers")
    raise UsageError(f"a priority must be a number of 0 or more, not {wrong}")
