"""The stretches of new items: checked, as words of records, with the blocks that they need."""

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers, Runs, index_of, runs, runs_of_row
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

    def __init__(self, storage: Storage, first: Tensor, length: int | Tensor) -> None:
        self._block_steps, columns = storage.blocks.block_steps, len(storage.signature.columns)
        first = first if first.dtype == torch.int64 else first.to(torch.int64)
        row = index_of(first) if columns == first.dim() == 1 and isinstance(length, int) and len(first) else None
        if isinstance(row, slice) and isinstance(length, int) and _is_right(storage, row, length):
            self._first = first.numpy()
            words = self._first[:, None] << LENGTH_BITS
            words |= length
            self.words = torch.from_numpy(words)
            self._needed = runs_of_row(row, self._block_steps)
        else:
            first = (first if first.dim() == 2 else first[:, None]).expand(-1, columns)
            if not isinstance(length, int):
                length = (length if length.dim() == 2 else length[:, None]).expand(len(first), columns)
            self._first = first.numpy()
            _check(storage, self._first, length if isinstance(length, int) else length.numpy())
            self._needed = runs(self._first.reshape(-1) // self._block_steps)
            self.words = stretches_of(first, length)
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
