"""Multi-ring reduction (MRR, paper section 4.1): rings between the devices, then a ring of their delegates."""

import torch
from torch import Tensor

from gmi_drl.comm.groups.device_aware import DeviceAwareGroup
from gmi_drl.comm.reductions.device_aware import DeviceAwareReduction
from gmi_drl.comm.reductions.rings import Ring
from gmi_drl.errors import UsageError
from gmi_drl.layout.mapping import delegates, mrr_obstacle, rings


class MultiRingReduction(DeviceAwareReduction):
    """Each ring sums, all at once; one delegate of each ring sums these sums; each passes the total on along its ring.

    Ring j joins the j-th rank of every device. Nothing is summed within a device, and no device has two delegates. Of a
    vector every rank sends 2 (g - 1) / g in its ring, on g devices of t ranks, a delegate 2 (t - 1) / t more, and all
    but the last of each ring the whole once more. With one ring the first step is all.

    Raises:
        UsageError: Also if devices have different numbers of ranks, or more ranks than there are devices.
    """

    def __init__(self, group: DeviceAwareGroup, device: torch.device | str = "cpu") -> None:
        if obstacle := mrr_obstacle(group.mapping):
            raise UsageError(f"a multi-ring reduction {obstacle}")
        super().__init__(group, device)
        members, delegates_of_rings = rings(group.mapping), delegates(group.mapping)
        number = group.local.rank
        self._ring = Ring(group.link, members[number])
        self._delegate = delegates_of_rings[number]
        self._delegates = (
            Ring(group.link, delegates_of_rings)
            if group.rank in delegates_of_rings and len(delegates_of_rings) > 1
            else None
        )
        self._is_only_ring = len(members) == 1

    def sum_placed(self, rows: Tensor) -> None:
        """See `DeviceAwareReduction`."""
        own = rows[self.group.local.rank]
        self._ring.all_reduce(own)
        if self._delegates:
            self._delegates.all_reduce(own)
        if not self._is_only_ring:
            self._ring.broadcast(own, self._delegate)
