"""Sharded reduction (SHARD): as HAR, but several ranks of a device each take one shard of the vector to the others."""

import torch
from torch import Tensor

from gmi_drl.comm.groups.device_aware import DeviceAwareGroup
from gmi_drl.comm.memory.collective_calls import BARRIER
from gmi_drl.comm.partition import shard_bounds
from gmi_drl.comm.reductions.device_aware import DeviceAwareReduction, sum_shard
from gmi_drl.comm.reductions.rings import Ring
from gmi_drl.layout.mapping import rings, shortest


class ShardedReduction(DeviceAwareReduction):
    """Rank j of a device sums shard j of its rows into its own row, then over ring j; then all copy the other shards.

    There are as many shards, t, as the smallest device has ranks; on a larger one the rest wait. Of a vector each of
    these ranks sends 2 (g - 1) / (g t) to the next of g devices: together as much as HAR's leaders, at once.
    """

    def __init__(self, group: DeviceAwareGroup, device: torch.device | str = "cpu") -> None:
        super().__init__(group, device)
        self._shards = shortest(group.mapping)
        number = group.local.rank
        self._ring = Ring(group.link, rings(group.mapping)[number]) if number < self._shards else None

    def sum_placed(self, rows: Tensor) -> None:
        """See `DeviceAwareReduction`."""
        own = self.group.local.rank
        if self._ring:
            self._ring.all_reduce(sum_shard(rows, own, self._shards, own))
        self.group.local.sync(BARRIER)
        for shard in range(self._shards):
            if shard != own:
                place = slice(*shard_bounds(rows.shape[1], self._shards, shard))
                rows[own, place] = rows[shard, place]
        self.group.local.sync(BARRIER)  # nobody reads the own shard any more
