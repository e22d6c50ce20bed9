"""What the reductions between devices have in common."""

from abc import abstractmethod

import torch
from torch import Tensor

from gmi_drl.comm.groups.device_aware import DeviceAwareGroup
from gmi_drl.comm.memory.rank_slots import Vectors
from gmi_drl.comm.partition import pieces, shard_bounds
from gmi_drl.comm.reductions.rows import RowReduction

_BLOCK = 64 * 1024  # floats summed at a time, so that the sum stays in the cache


class DeviceAwareReduction(RowReduction):
    """Copies each vector into its rank's slot, as MPR does; `sum_placed` then sums over the slots and devices.

    Args:
        group: The ranks.
        device: Where this rank's bucket shall be.

    Raises:
        UsageError: If the group has a reduction already, or the reduction is not for its mapping.
        MachineError: If CUDA cannot register the slot.
    """

    group: DeviceAwareGroup

    def __init__(self, group: DeviceAwareGroup, device: torch.device | str = "cpu") -> None:
        super().__init__(group, group.local.rows, group.local.rank, device)

    def sum_rows(self, rows: Vectors, numel: int, call: int) -> None:
        """See `RowReduction`."""
        assert isinstance(rows, Tensor)  # as rows of the host are
        self.group.link.sync(call)  # all numbers are in the rows
        self.sum_placed(rows[:, :numel])

    @abstractmethod
    def sum_placed(self, rows: Tensor) -> None:
        """Put the group's sum into this rank's row.

        Args:
            rows: `[ranks of this device, n]`, as `sum_rows` has them.
        """


def sum_shard(rows: Tensor, into: int, shards: int, shard: int) -> Tensor:
    """Sum one of `shards` shards of all rows `[ranks, n]` into row `into`. Returns that shard, `[about n / shards]`."""
    bounds = shard_bounds(rows.shape[1], shards, shard)
    for place in pieces(*bounds, _BLOCK):
        first = rows[into, place]
        for rank, row in enumerate(rows):
            if rank != into:
                first.add_(row[place])
    return rows[into, slice(*bounds)]
