"""What the reductions between devices have in common."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from gmi_drl.comm.neighbours import ThroughRows
from gmi_drl.comm.placed import PlacedGroup


class PlacedReduction(ABC):
    """A `Reduction` over a `PlacedGroup`: vectors come into shared memory as in MPR, where `sum_rows` sums them.

    Args:
        group: The ranks.
        device: Where this rank's bucket shall be.

    Raises:
        UsageError: If the group has a reduction already, or the reduction is not for its mapping.
        MachineError: If CUDA cannot register the slot.
    """

    def __init__(self, group: PlacedGroup, device: torch.device | str = "cpu") -> None:
        self.group = group
        self._through_rows = ThroughRows(group.neighbours, device, self._meet_and_sum)

    def bucket(self, numel: int) -> Tensor:
        """A zeroed vector, on the CPU in this rank's slot; see `Reduction`."""
        return self._through_rows.bucket(numel)

    def reduce(self, bucket: Tensor) -> None:
        """Sum in place over the group; see `Reduction`."""
        self._through_rows.reduce(bucket)

    @abstractmethod
    def sum_rows(self, rows: Tensor) -> None:
        """Put the group's sum into this rank's row.

        Args:
            rows: `[ranks of this device, n]`, in each the numbers of its rank. When this returns nobody reads or
                writes this rank's row any more.
        """

    def _meet_and_sum(self, rows: Tensor, call: int) -> None:
        self.group.link.meet(call)  # all have their numbers in their rows
        self.sum_rows(rows)
