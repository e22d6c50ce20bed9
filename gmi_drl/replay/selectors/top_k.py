"""One of the items with the highest priorities."""

from collections.abc import Mapping

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.selectors.base import Selector, too_few


class TopK(Selector):
    """Each of the `k` items of the highest priorities with the same probability; which of equal ones is not said.

    After a change the next selection looks at all items once.

    Args:
        k: How many.

    Raises:
        UsageError: if it is below 1.
    """

    def __init__(self, k: int) -> None:
        if k < 1:
            raise UsageError(f"k must be 1 at least, not {k}")
        self.k = k

    def __str__(self) -> str:
        return f"TopK({self.k})"

    def clear(self) -> None:
        """All items are gone."""
        self._priorities = torch.full((self.capacity,), -1.0, dtype=torch.float64)  # of an item: 0 or more
        self._count = 0
        self._top: Tensor | None = None

    def inserted(self, slots: Tensor, priorities: Tensor) -> None:
        """Note their priorities."""
        self._count += len(slots)
        self.updated(slots, priorities)

    def updated(self, slots: Tensor, priorities: Tensor) -> None:
        """Note their priorities."""
        self._priorities[slots] = priorities
        self._top = None

    def deleted(self, slots: Tensor) -> None:
        """Forget them."""
        self._count -= len(slots)
        self.updated(slots, torch.full((len(slots),), -1.0, dtype=torch.float64))

    def select(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw with replacement."""
        top = self._highest()
        return top[torch.randint(len(top), (count,), generator=generator)], _equal(count, len(top))

    def select_distinct(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw without replacement."""
        top = self._highest()
        if count > len(top):
            raise too_few(len(top), count)
        return top[torch.randperm(len(top), generator=generator)[:count]], _equal(count, len(top))

    def state_dict(self) -> dict[str, Tensor]:
        """The priorities of all slots, -1 where there is no item."""
        return {"priorities": self._priorities.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over priorities."""
        self._priorities.copy_(state["priorities"])
        self._count, self._top = int((self._priorities >= 0).sum()), None

    def _highest(self) -> Tensor:
        if self._top is None:
            self._top = self._priorities.topk(min(self.k, self._count)).indices
        return self._top


def _equal(count: int, among: int) -> Tensor:
    return torch.full((count,), 1 / among, dtype=torch.float64)
