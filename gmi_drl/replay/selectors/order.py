"""The oldest item, or the newest one."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gmi_drl.replay.indices import index_of_slots, zeros
from gmi_drl.replay.selectors.base import Selector, too_few


class _InOrder(Selector):
    """A list of slots in the order of their insertion. Places of deleted ones stay, until the list is full."""

    evicts_in_batches: ClassVar[bool] = True

    def clear(self) -> None:
        """All items are gone."""
        self._order = zeros(2 * self.capacity)
        self._places = zeros(self.capacity).fill_(-1)  # of each slot in the list
        self._listed, self._at = self._order.numpy(), self._places.numpy()  # the same memory
        self._first = self._end = self._count = 0
        self._selected: Tensor | None = None  # the last selection, if it was of all in front

    def inserted(self, slots: Tensor, priorities: Tensor) -> None:
        """Append them."""
        self._selected = None
        if self._end + len(slots) > len(self._listed):
            self._move_to_front()
        end = self._end + len(slots)
        self._listed[self._end : end] = slots.numpy()
        self._at[index_of_slots(slots)] = np.arange(self._end, end)
        self._end, self._count = end, self._count + len(slots)

    def deleted(self, slots: Tensor) -> None:
        """Their places are empty."""
        self._at[index_of_slots(slots)] = -1
        self._count -= len(slots)
        if slots is self._selected:  # those in front
            self._first += len(slots)
        self._selected = None

    def select(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The same item `count` times."""
        return self._next(1).expand(count), torch.ones(count, dtype=torch.float64)

    def select_distinct(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The first `count` in order."""
        if count > self._count:
            raise too_few(self._count, count)
        return self._next(count), torch.from_numpy(np.ones(count))

    def state_dict(self) -> dict[str, Tensor]:
        """All slots, the oldest first."""
        return {"slots": self._in_order()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over an order."""
        self.clear()
        self.inserted(state["slots"], state["slots"])

    @abstractmethod
    def _next(self, count: int) -> Tensor:
        """The next `count` slots."""

    def _in_order(self) -> Tensor:
        if self._count == self._end - self._first:
            return self._order[self._first : self._end].clone()
        return self._order[self._first : self._end][self._is_there(self._first, self._end)]

    def _is_there(self, first: int, end: int) -> Tensor:
        return self._places.index_select(0, self._order[first:end]) == torch.arange(first, end)

    def _move_to_front(self) -> None:
        """Begin the list anew, without empty places."""
        if self._count == self._end - self._first:  # all by as much; of slots that are not there places stay below 0
            self._listed[: self._count] = self._listed[self._first : self._end]
            self._at -= self._first
        else:
            slots = self._in_order()
            self._order[: len(slots)] = slots
            self._places[slots] = torch.arange(len(slots))
        self._first, self._end = 0, self._count


class Fifo(_InOrder):
    """The oldest item; as a remover it keeps the newest."""

    def _next(self, count: int) -> Tensor:
        width = count
        while self._count < self._end - self._first:  # some places are empty
            end = min(self._first + width, self._end)
            there = self._is_there(self._first, end).nonzero().flatten()
            if gone := int(there[0]) if len(there) else end - self._first:
                self._first += gone  # nothing is before it, and nothing will be
            elif len(there) >= count:
                return self._order[self._first + there[:count]]
            else:
                width *= 2
        self._selected = torch.from_numpy(self._listed[self._first : self._first + count].copy())
        return self._selected


class Lifo(_InOrder):
    """The newest item; as a remover it evicts what was just inserted, and keeps the oldest."""

    def _next(self, count: int) -> Tensor:
        width = count
        while True:
            first = max(self._end - width, self._first)
            there = self._is_there(first, self._end).nonzero().flatten()
            self._end = first + int(there[-1]) + 1 if len(there) else first  # nothing is after it
            if len(there) >= count:
                return self._order[first + there[-count:].flip(0)]
            width *= 2
