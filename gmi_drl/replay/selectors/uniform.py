"""Each item with the same probability."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from gmi_drl.replay.indices import index_of_slots, zeros
from gmi_drl.replay.selectors.base import Selector, draw_distinct, too_few


class Uniform(Selector):
    """Draws from a dense list of slots; the last ones take the places of those that are deleted."""

    def clear(self) -> None:
        """All items are gone."""
        self._count = 0
        self._slots, self._places = zeros(self.capacity), zeros(self.capacity).fill_(-1)
        self._listed, self._at = self._slots.numpy(), self._places.numpy()  # the same memory

    def inserted(self, slots: Tensor, priorities: Tensor) -> None:
        """Append them."""
        end = self._count + len(slots)
        self._listed[self._count : end] = slots.numpy()
        self._at[index_of_slots(slots)] = np.arange(self._count, end)
        self._count = end

    def deleted(self, slots: Tensor) -> None:
        """Fill their places with the last ones."""
        end, listed, at, index = self._count - len(slots), self._listed, self._at, index_of_slots(slots)
        places = at[index].copy()
        at[index] = -1
        holes = places[places < end]
        if len(holes):
            last = listed[end : self._count]
            moved = last[at[last] >= 0]
            listed[holes] = moved
            at[moved] = holes
        self._count = end

    def select(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw with replacement."""
        drawn = torch.randint(self._count, (count,), generator=generator).numpy()
        return torch.from_numpy(self._listed.take(drawn)), torch.from_numpy(np.full(count, 1 / self._count))

    def select_distinct(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw without replacement."""
        if count > self._count:
            raise too_few(self._count, count)
        if 2 * count <= self._count:
            return draw_distinct(lambda more: self.select(more, generator), count)
        drawn = torch.randperm(self._count, generator=generator)[:count]
        return self._slots[drawn], torch.full((count,), 1 / self._count, dtype=torch.float64)

    def state_dict(self) -> dict[str, Tensor]:
        """The list."""
        return {"slots": self._slots[: self._count].clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a list."""
        self.clear()
        self.inserted(state["slots"], state["slots"])
