"""What the reductions between devices have in common."""

from abc import abstractmethod

import torch
from torch import Tensor

from gmi_drl.comm.groups.device_aware import DeviceAwareGroup
from gmi_drl.comm.memory.rank_slots import Vectors
from gmi_drl.comm.partition import pieces, shard_bounds
from gmi_drl.comm.reductions.rows import RowReduction

_BLOCK = 64 * 1024  # floats summed at a time: the sum stays in the cache until the last has been added


class DeviceAwareReduction(RowReduction):
    """Vectors come into the rows of the ranks of a device, as in MPR, where `sum_placed` sums them.

    Args:
        group: The ranks.
        device: Where this rank's bucket shall be.

    Raises:
        UsageError: If the group has a reduction already, or the reduction is not for its mapping.
        MachineError: If CUDA cannot register the slot.
    """

    group: DeviceAwareGroup

    def __init__(self, group: DeviceAwareGroup, device: torch.device | str = "cpu") -> None:
        super().__init__(group, group.neighbours.rows, group.neighbours.rank, device)

    def sum_rows(self, rows: Vectors, numel: int, call: int) -> None:
        """See `RowReduction`."""
        assert isinstance(rows, Tensor)  # as rows of the host are
        self.group.link.sync(call)  # all have their numbers in their rows
        self.sum_placed(rows[:, :numel])

    @abstractmethod
    def sum_placed(self, rows: Tensor) -> None:
        """Put the group's sum into this rank's row.

        Args:
            rows: `[ranks of this device, n]`, as `sum_rows` has them.
        """


def sum_shard(rows: Tensor, into: int, shards: int, shard: int) -> Tensor:
    """Add one of so many shards of all rows `[ranks, n]` up in one of the rows; returns it, `[about n / shards]`."""
    bounds = shard_bounds(rows.shape[1], shards, shard)
    for place in pieces(*bounds, _BLOCK):
        first = rows[into, place]
        for rank, row in enumerate(rows):
            if rank != into:
                first.add_(row[place])
    return rows[into, slice(*bounds)]
