"""What a sample of a table or a ring is."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gmi_drl.replay.rows import Rows


@dataclass(frozen=True)
class Batch:
    """B sampled items, with their data.

    Args:
        rows: The data `[B, T]`, on the storage's device; T is the longest stretch, past its end an item has zeros.
        keys: Of the items, int64 `[B]`, for `update`.
        probabilities: With which each was selected, float64 `[B]`; 1 of selectors that are not random.
        priorities: float64 `[B]`.
        times_sampled: With this batch, int64 `[B]`.
        lengths: Steps of each item in each column, int64 `[B]`.
        table_size: Items that were there when it was sampled.
    """

    rows: Rows
    keys: Tensor
    probabilities: Tensor
    priorities: Tensor
    times_sampled: Tensor
    lengths: dict[str, Tensor]
    table_size: int

    @property
    def fields(self) -> dict[str, Tensor]:
        """`[B, T, *shape]` of each field."""
        return self.rows.fields

    def weights(self, beta: float) -> Tensor:
        """Importance-sampling weights, float32 `[B]`, the largest of which is 1 (Schaul et al. 2015, section 3.4)."""
        return importance_weights(self.probabilities, self.table_size, beta)


def importance_weights(probabilities: Tensor, size: int | Tensor, beta: float) -> Tensor:
    """(1 / (size x probability)) ** beta over its largest, float32 `[B]`."""
    weights = (size * probabilities).pow(-beta)
    return (weights / weights.max()).to(torch.float32)
