"""Hierarchical reduction (HAR, paper section 4.1): within each device, then among one leader of each."""

import torch
from torch import Tensor

from gmi_drl.comm.groups.device_aware import DeviceAwareGroup
from gmi_drl.comm.memory.collective_calls import BARRIER
from gmi_drl.comm.reductions.device_aware import DeviceAwareReduction, sum_shard
from gmi_drl.comm.reductions.rings import Ring
from gmi_drl.layout.mapping import leaders

_LEADER = 0  # the paper's t: any that every device has would do


class HierarchicalReduction(DeviceAwareReduction):
    """The ranks of a device sum its rows into the leader's row, one shard each; the leaders sum in a ring; all copy.

    Of a vector a leader sends 2 (g - 1) / g to the next of g devices, the others nothing. Devices may have different
    numbers of ranks.
    """

    def __init__(self, group: DeviceAwareGroup, device: torch.device | str = "cpu") -> None:
        super().__init__(group, device)
        chosen = leaders(group.mapping, _LEADER)
        self._ring = Ring(group.link, chosen) if group.rank in chosen else None

    def sum_placed(self, rows: Tensor) -> None:
        """See `DeviceAwareReduction`."""
        local = self.group.local
        sum_shard(rows, _LEADER, local.size, local.rank)
        local.sync(BARRIER)
        if self._ring:
            self._ring.all_reduce(rows[_LEADER])
        local.sync(BARRIER)
        if not self._ring:
            rows[local.rank].copy_(rows[_LEADER])
        local.sync(BARRIER)  # the leader may write its row again
