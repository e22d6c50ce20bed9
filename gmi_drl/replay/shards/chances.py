"""What decides which items of a shard are selected: their weights by each way that was asked for, and their order."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.items import LENGTH_BITS, STRETCHES, Items, lengths, priorities_of
from gmi_drl.replay.selectors import Fifo, Lifo, Selector, Uniform
from gmi_drl.replay.selectors.host_sum_tree import HostSumTree
from gmi_drl.replay.selectors.prioritized import DIGITS, weights_of
from gmi_drl.replay.shards import ways

MOST_TREES = 8
"""Trees that a shard keeps: exponents may change with every selection."""

MOST_WEIGHT = 10.0**DIGITS
"""Of all trajectories of all shards together: what is computed of more may be no number."""

_OLDEST = torch.iinfo(torch.int64).max


class Choice(NamedTuple):
    """What is asked of a shard.

    Args:
        way: How.
        by_steps: Whether a trajectory weighs as much more as it has steps.
        distinct: Whether none may be there twice.
    """

    way: ways.Way
    by_steps: bool = False
    distinct: bool = False

    @property
    def is_ranked(self) -> bool:
        """Whether it takes those of the highest scores; else it draws with replacement."""
        return self.distinct or not self.is_random

    @property
    def is_random(self) -> bool:
        """Whether it draws, so that each selection takes others."""
        return isinstance(self.way, ways.RANDOM)

    @property
    def exponent(self) -> float | None:
        """Of priorities; None if they do not count."""
        return self.way.exponent if isinstance(self.way, ways.Weighted) else None

    def check_total(self, total: float) -> None:
        """Raise if all trajectories of all shards weigh too much together.

        Raises:
            UsageError: then, with the remedy.
        """
        if not total <= MOST_WEIGHT:
            text = f"{self.way} gives the trajectories a weight of {total:.3g} together, {MOST_WEIGHT:.0e} at most can"
            raise UsageError(f"{text} be drawn from: give them smaller priorities, or take a smaller exponent")


class Chances(Selector):
    """The sampler of a shard's table.

    A tree of weights is made when a way needs it first; those of the last `MOST_TREES` ways are kept.

    Args:
        stamps: When each trajectory was committed, int64 `[trajectories]`.
        trajectory_at: The trajectories that begin at these steps of the storage `[n]`.

    Attributes:
        count: Items that there are.
        items: Of the table; set by the shard.
    """

    items: Items

    def __init__(self, stamps: Tensor, trajectory_at: Callable[[Tensor], Tensor]) -> None:
        self._stamps, self._trajectory_at = stamps, trajectory_at

    def clear(self) -> None:
        """All items are gone."""
        self.priorities = torch.full((self.capacity,), -1.0, dtype=torch.float64)  # of an item: 0 or more
        self._all, self._ordered = Uniform(), (Fifo(), Lifo())
        for selector in (self._all, *self._ordered):
            selector.open(self.capacity)
        self._trees: dict[tuple[float | None, bool], HostSumTree] = {}
        self.count = 0

    def inserted(self, slots: Tensor, priorities: Tensor) -> None:
        """Give them weights."""
        self.count += len(slots)
        for selector in (self._all, *self._ordered):
            selector.inserted(slots, priorities)
        self.updated(slots, priorities)

    def updated(self, slots: Tensor, priorities: Tensor) -> None:
        """Give them other weights."""
        self.priorities[slots] = priorities
        for (exponent, by_steps), tree in self._trees.items():
            tree.set(slots, self._weights(exponent, by_steps, slots))

    def deleted(self, slots: Tensor) -> None:
        """Give them none."""
        self.count -= len(slots)
        self.priorities[slots] = -1.0
        for selector in (self._all, *self._ordered):
            selector.deleted(slots)
        for tree in self._trees.values():
            tree.set(slots, torch.zeros(len(slots), dtype=torch.float64))

    def select(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Each with the same probability: shards select by `draw` and `best`."""
        return self._all.select(count, generator)

    def total(self, choice: Choice) -> float:
        """The weight of all items together."""
        if choice.way == ways.Uniform() and not choice.by_steps:
            return float(self.count)
        return self._tree(choice).sum

    def draw(self, choice: Choice, count: int, generator: torch.Generator) -> Tensor:
        """Slots `[count]`, drawn with replacement; none if there is no item with a weight, or all weigh too much."""
        if not count or not 0 < self.total(choice) <= MOST_WEIGHT:
            return torch.empty(0, dtype=torch.int64)
        if choice.way == ways.Uniform() and not choice.by_steps:
            return self._all.select(count, generator)[0]
        return self._tree(choice).draw(count, generator)

    def best(self, choice: Choice, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The slots of the highest scores, `count` at most, and these scores, int64, the highest first.

        Scores of all shards can be compared. Distinct draws take those of the highest w / -ln(u) with u from 0 to 1,
        which is what draws without replacement, one after the other, would give (Efraimidis and Spirakis 2006). Scores
        of those that weigh too much together are infinite.
        """
        if isinstance(choice.way, ways.Fifo | ways.Lifo):
            is_lifo = isinstance(choice.way, ways.Lifo)
            slots = self._ordered[is_lifo].select_distinct(min(count, self.count), generator)[0]
            stamps = self._stamps[self.trajectories_of(slots)]
            return slots, stamps if is_lifo else _OLDEST - stamps
        scores = self.priorities
        if choice.distinct and choice.is_random:
            there = (self.priorities >= 0).nonzero().flatten()
            uniform = torch.rand(len(there), dtype=torch.float64, generator=generator).clamp_(min=1e-300)
            weights = self.weights(choice, there)
            if not float(weights.sum()) <= MOST_WEIGHT:
                weights.fill_(torch.inf)
            found, places = torch.where(weights > 0, -weights / uniform.log(), -1.0).topk(min(count, len(there)))
            slots = there[places]
        else:
            found, slots = scores.topk(min(count, self.count))
        is_taken = found >= 0
        return slots[is_taken], found[is_taken].view(torch.int64)  # the bits of numbers from 0 on are in their order

    def weights(self, choice: Choice, slots: Tensor) -> Tensor:
        """What items weigh, float64 `[n]`; too large ones are infinite."""
        return self._weights(choice.exponent, choice.by_steps, slots)

    def trajectories_of(self, slots: Tensor) -> Tensor:
        """The trajectories of items."""
        return self._trajectory_at(self.items.records[slots, STRETCHES] >> LENGTH_BITS)

    def state_dict(self) -> dict[str, Tensor]:
        """The order of the list from which uniform draws are made, and that of insertion. Items have the rest."""
        return {"all": self._all.state_dict()["slots"], "order": self._ordered[0].state_dict()["slots"]}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over both; the items must be there."""
        self.clear()
        self._all.load_state_dict({"slots": state["all"]})
        for selector in self._ordered:
            selector.load_state_dict({"slots": state["order"]})
        self.count = len(state["all"])
        self.priorities[state["all"]] = priorities_of(self.items.read(state["all"]))

    def _tree(self, choice: Choice) -> HostSumTree:
        key = choice.exponent, choice.by_steps
        if key in self._trees:
            self._trees[key] = self._trees.pop(key)  # the last one used is the last to go
        else:
            if len(self._trees) == MOST_TREES:
                del self._trees[next(iter(self._trees))]
            self._trees[key] = tree = HostSumTree(self.capacity)
            there = (self.priorities >= 0).nonzero().flatten()
            if len(there):
                tree.set(there, self.weights(choice, there))
        return self._trees[key]

    def _weights(self, exponent: float | None, by_steps: bool, slots: Tensor) -> Tensor:
        if exponent is None:
            weights = torch.ones(len(slots), dtype=torch.float64)
        else:
            with np.errstate(over="ignore"):
                weights = weights_of(self.priorities[slots], exponent)
        return weights * lengths(self.items.records[slots, STRETCHES]) if by_steps else weights
