"""Reduction by gloo over the loopback interface: runs on every processor."""

import torch
from torch import Tensor

from gmi_drl.comm.gloo import GlooGroup
from gmi_drl.comm.reduction import PlainBucket, check_bucket


class GlooReduction(PlainBucket):
    """A `Reduction` by gloo's own sum, through host memory if need be.

    Args:
        group: The ranks.
        device: Where this rank's bucket shall be.
    """

    def __init__(self, group: GlooGroup, device: torch.device | str = "cpu") -> None:
        self.group = group
        super().__init__(device)

    def reduce(self, bucket: Tensor) -> None:
        """Sum in place over the group; see `Reduction`."""
        check_bucket(bucket)
        host = bucket.detach().cpu()  # itself if it is there already
        self.group.sum(host)
        if host.device != bucket.device:
            bucket.detach().copy_(host)
