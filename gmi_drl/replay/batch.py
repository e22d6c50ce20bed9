"""What a sample of a table is."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gmi_drl.replay.items import KEY, LENGTH_BITS, LONGEST, STRETCHES, TIMES, lengths, priorities_of
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.storage import Storage


class Selection(NamedTuple):
    """B selected items, whose rows nobody writes over yet.

    Args:
        records: As in `Batch`.
        probabilities: As in `Batch`.
        table_size: As in `Batch`.
        ticket: For `Blocks.end_reading`.
    """

    records: Tensor
    probabilities: Tensor
    table_size: int
    ticket: int


@dataclass(frozen=True)
class Batch:
    """B sampled items, with their data.

    Args:
        rows: The data `[B, T]`, on the storage's device; T is the longest stretch, past its end an item has zeros.
        records: All of the items, int64 `[B, 3 + columns]` (`items.py`).
        probabilities: With which each was selected, float64 `[B]`; 1 of selectors that are not random.
        table_size: Items that were there when it was sampled.
    """

    rows: Rows
    records: Tensor
    probabilities: Tensor
    table_size: int

    @property
    def fields(self) -> dict[str, Tensor]:
        """`[B, T, *shape]` of each field."""
        return self.rows.fields

    @property
    def keys(self) -> Tensor:
        """Of the items, int64 `[B]`, for `update`."""
        return self.records[:, KEY]

    @property
    def priorities(self) -> Tensor:
        """Of the items, float64 `[B]`."""
        return priorities_of(self.records)

    @property
    def times_sampled(self) -> Tensor:
        """How often each was sampled, with this batch, int64 `[B]`."""
        return self.records[:, TIMES]

    @property
    def lengths(self) -> dict[str, Tensor]:
        """Steps of each item in each column of the storage, int64 `[B]`."""
        columns = self.rows.signature.columns
        return {name: lengths(self.records[:, STRETCHES + number]) for number, name in enumerate(columns)}

    def weights(self, beta: float) -> Tensor:
        """Importance-sampling weights, float32 `[B]`, the largest of which is 1 (Schaul et al. 2015, section 3.4)."""
        return importance_weights(self.probabilities, self.table_size, beta)


def importance_weights(probabilities: Tensor, size: int | Tensor, beta: float) -> Tensor:
    """(1 / (size x probability)) ** beta over its largest, float32 `[B]`."""
    if probabilities.device.type == "cpu" and isinstance(size, int):
        values = (size * probabilities.numpy()) ** -beta
        return torch.from_numpy((values / values.max()).astype(np.float32))
    weights = (size * probabilities).pow(-beta)
    return weights.div_(weights.max()).to(torch.float32)


def gather_items(
    storage: Storage, records: Tensor, columns: tuple[str, ...] | None = None, out: Rows | None = None
) -> Rows:
    """The rows of items, whose records `[B, 3 + columns]` these are.

    Args:
        storage: Where their steps are.
        records: Of the items.
        columns: Of the storage; None for all.
        out: Rows of the same sizes, which are written over.
    """
    storage.flush()
    names = storage.signature.columns
    chosen, table = columns or names, records.numpy()
    stretches = [table[:, STRETCHES + names.index(name)] for name in chosen]
    steps = [stretch & LONGEST for stretch in stretches] if storage.longest > 1 else []
    longest = max((int(each.max()) for each in steps), default=1)
    rows = out
    if rows is None or len(rows.words) > len(chosen) or not rows.fits((len(records), longest), chosen):
        rows = Rows.empty(storage.signature, (len(records), longest), device=storage.device, columns=chosen)
    for number, name in enumerate(chosen):
        length = longest if longest == 1 or steps[number].min() == longest else torch.from_numpy(steps[number])
        first = torch.from_numpy(stretches[number] >> LENGTH_BITS)
        storage.gather(first, length, longest=longest, columns=(name,), out=rows)
    return rows
