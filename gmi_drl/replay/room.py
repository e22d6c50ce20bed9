"""Which blocks of a full storage are emptied: those whose items cost least."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class Evicting(Protocol):
    """A table that evicts items when its storage is full."""

    def references(self) -> tuple[Tensor, Tensor]:
        """References of its items to each block, int64 `[blocks]`; those of items that the remover keeps longest."""

    def evict_from(self, blocks: Tensor) -> None:
        """Evict all items that have steps in these blocks."""


def cheapest(tables: Sequence[Evicting], count: int, references: Tensor, opened: Tensor) -> Tensor:
    """Select `count` blocks that become free when these tables evict the items in them.

    A block costs the references of the items that the removers keep longest. Of equal ones the oldest is taken.

    Args:
        tables: Those of the storage that evict for room.
        count: How many.
        references: All that there are to each block, int64 `[blocks]`; 0 where somebody writes.
        opened: The number of each block's last lease, int64 `[blocks]`.

    Returns:
        The blocks; none if there are not as many.
    """
    parts = [table.references() for table in tables]
    found, costs = (torch.stack(part).sum(0) for part in zip(*parts, strict=True))
    blocks = ((references > 0) & (references == found)).nonzero().flatten()  # others also need those that differ
    if len(blocks) < count:
        return blocks[:0]
    blocks = blocks[opened[blocks].argsort(stable=True)]
    return blocks[costs[blocks].argsort(stable=True)[:count]]
