"""The item of the highest priority, or of the lowest; of equal ones that inserted or updated longest ago."""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import ClassVar

import torch
from torch import Tensor

from gmi_drl.replay.selectors.base import Selector, too_few

_SLACK = 2
"""Outdated entries are removed when there are so many times the items."""


class MinHeap(Selector):
    """The item of the lowest priority. An update to the same priority counts as one."""

    evicts_in_batches: ClassVar[bool] = True
    _sign: ClassVar[float] = 1.0

    def clear(self) -> None:
        """All items are gone."""
        self._heap: list[tuple[float, int, int]] = []  # signed priority, number of the change, slot
        self._current: dict[int, tuple[float, int, int]] = {}  # the entry that counts, by slot
        self._changes = 0

    def inserted(self, slots: Tensor, priorities: Tensor) -> None:
        """Add them."""
        for slot, priority in zip(slots.tolist(), (self._sign * priorities).tolist(), strict=True):
            entry = priority, self._changes, slot
            self._current[slot] = entry
            self._changes += 1
            heappush(self._heap, entry)
        if len(self._heap) > _SLACK * len(self._current) + 64:
            self._heap = list(self._current.values())
            heapify(self._heap)

    def updated(self, slots: Tensor, priorities: Tensor) -> None:
        """Add new entries for them."""
        self.inserted(slots, priorities)

    def deleted(self, slots: Tensor) -> None:
        """Their entries are outdated."""
        for slot in slots.tolist():
            del self._current[slot]

    def select(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The same item `count` times."""
        return self.select_distinct(1, generator)[0].expand(count), torch.ones(count, dtype=torch.float64)

    def select_distinct(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The first `count` in order."""
        if count > len(self._current):
            raise too_few(len(self._current), count)
        taken: list[tuple[float, int, int]] = []
        while len(taken) < count:
            entry = heappop(self._heap)
            if self._current.get(entry[2]) == entry:
                taken.append(entry)
        for entry in taken:
            heappush(self._heap, entry)
        return torch.tensor([slot for _, _, slot in taken]), torch.ones(count, dtype=torch.float64)

    def state_dict(self) -> dict[str, Tensor]:
        """Slots and signed priorities, the one changed longest ago first."""
        entries = sorted(self._current.values(), key=lambda entry: entry[1])
        return {
            "slots": torch.tensor([slot for _, _, slot in entries], dtype=torch.int64),
            "priorities": torch.tensor([priority for priority, _, _ in entries], dtype=torch.float64),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over slots and signed priorities."""
        self.clear()
        self.inserted(state["slots"], self._sign * state["priorities"])


class MaxHeap(MinHeap):
    """The item of the highest priority. An update to the same priority counts as one."""

    _sign: ClassVar[float] = -1.0
