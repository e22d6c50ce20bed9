"""Reduction by NCCL over all ranks at once, whatever devices they are on (NCCL-flat)."""

import torch
from torch import Tensor

from gmi_drl.comm.groups.nccl import NcclGroup
from gmi_drl.comm.reduction import PlainBucket, check_bucket


class NcclReduction(PlainBucket):
    """A `Reduction` by NCCL's own all-reduce, for which the host waits.

    Args:
        group: The ranks.
        device: Where this rank's bucket shall be.

    Raises:
        UsageError: If the group has a reduction already, or the device is no GPU.
        MachineError: If NCCL cannot connect them.
    """

    def __init__(self, group: NcclGroup, device: torch.device | str = "cuda:0") -> None:
        super().__init__(device)
        self.group = group
        self._gpu = torch.device(device)
        group.connect(self._gpu)

    def reduce(self, bucket: Tensor) -> None:
        """Sum in place over the group; see `Reduction`."""
        check_bucket(bucket)
        vector = bucket.detach()
        there = vector.to(self._gpu)  # itself, if it is there
        self.group.sum_on_gpu(there)
        if there is not vector:
            vector.copy_(there)
