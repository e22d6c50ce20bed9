"""The stretches of new items: checked, as words of records, with the blocks that they need."""

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers, Runs, as_integers, as_row, runs, runs_of_row
from gmi_drl.replay.items import LENGTH_BITS, stretches_of
from gmi_drl.replay.storage import Storage


class Stretches:
    """Checked stretches of n items.

    Args:
        storage: Where the steps are.
        first: First steps, int64 `[n]`, or `[n, columns]` if columns have different stretches.
        length: Steps; of all, `[n]` or `[n, columns]`.

    Attributes:
        words: int64 `[n, columns]` (`items.py`).

    Raises:
        UsageError: if a stretch is not in one block, or nobody needs its block.
    """

    def __init__(self, storage: Storage, first: Tensor | Integers, length: int | Tensor | Integers) -> None:
        self._block_steps, columns = storage.blocks.block_steps, len(storage.signature.columns)
        numbers = as_integers(first)
        steps = length if isinstance(length, int) else as_integers(length)
        row = as_row(numbers) if columns == numbers.ndim == 1 and isinstance(steps, int) and numbers.size else None
        if isinstance(row, slice) and isinstance(steps, int) and _is_right(storage, row, steps):
            self._first = numbers
            words = numbers[:, None] << LENGTH_BITS
            words |= steps
            self._needed = runs_of_row(row, self._block_steps)
        else:
            shape = len(numbers), columns
            self._first = np.broadcast_to(numbers if numbers.ndim == 2 else numbers[:, None], shape)
            if not isinstance(steps, int):
                steps = np.broadcast_to(steps if steps.ndim == 2 else steps[:, None], shape)
            _check(storage, self._first, steps)
            self._needed = runs(self._first.reshape(-1) // self._block_steps)
            words = stretches_of(self._first, steps)
        self.words = torch.from_numpy(words)
        if not storage.blocks.are_used(self._needed.values):
            raise UsageError("nobody holds an item's steps: insert it before its stream goes on")

    def __len__(self) -> int:
        return len(self._first)

    def needed_by(self, items: slice) -> Runs:
        """The blocks that some of the items need."""
        if items == slice(0, len(self)):
            return self._needed
        return runs(self._first[items].reshape(-1) // self._block_steps)


def _is_right(storage: Storage, row: slice, length: int) -> bool:
    """Whether items of `length` that begin at the steps of a row are right. False where it must be looked at closer."""
    if not (row.start >= 0 and row.stop + length - 1 <= storage.steps and 1 <= length <= storage.longest):
        return False
    size = storage.blocks.block_steps
    return length == 1 or row.start // size == (row.stop + length - 2) // size


def _check(storage: Storage, first: Integers, length: int | Integers) -> None:
    size = storage.blocks.block_steps
    inside = first.clip(0, storage.steps - 1)
    last = inside + (length - 1)
    is_right = (inside == first) & (last // size == inside // size)
    is_right &= (last >= inside) & (last < inside + storage.longest)
    if not is_right.all():
        row, column = np.argwhere(~is_right)[0]
        steps = length if isinstance(length, int) else int(length[row, column])
        where = f"in one block of {size} of {storage.steps} steps"
        text = f"item {row}, {steps} steps from {int(first[row, column])} on, must lie {where}"
        raise UsageError(f"{text}, which was made for items of {storage.longest}")
