"""Reduction by gloo over the loopback interface: runs on every processor."""

import torch
from torch import Tensor

from gmi_drl.comm.gloo import GlooGroup
from gmi_drl.comm.reduction import check_bucket, check_first_bucket


class GlooReduction:
    """A `Reduction` by gloo's own sum, through host memory if need be.

    Args:
        group: The ranks.
        device: Where this rank's bucket shall be.
    """

    def __init__(self, group: GlooGroup, device: torch.device | str = "cpu") -> None:
        self.group = group
        self._device = device
        self._bucket: Tensor | None = None

    def bucket(self, numel: int) -> Tensor:
        """A zeroed vector; see `Reduction`."""
        check_first_bucket(self._bucket, numel)
        self._bucket = torch.zeros(numel, device=self._device)
        return self._bucket

    def reduce(self, bucket: Tensor) -> None:
        """Sum in place over the group; see `Reduction`."""
        check_bucket(bucket)
        host = bucket.detach().cpu()  # itself if it is there already
        self.group.sum(host)
        if host.device != bucket.device:
            bucket.detach().copy_(host)
