"""Reduction by gloo over the loopback interface: runs on every processor."""

import torch
from torch import Tensor

from gmi_drl.comm.groups.gloo import GlooGroup
from gmi_drl.comm.memory.pinned import Upload, pinned_zeros
from gmi_drl.comm.reduction import PlainBucket, check_bucket


class GlooReduction(PlainBucket):
    """A `Reduction` by gloo's own sum. Vectors on a device go through host memory; only the way there is waited for.

    Args:
        group: The ranks.
        device: Where this rank's bucket shall be.
    """

    def __init__(self, group: GlooGroup, device: torch.device | str = "cpu") -> None:
        self.group = group
        self._host, self._upload = torch.empty(0), Upload()
        super().__init__(device)

    def reduce(self, bucket: Tensor) -> None:
        """Sum in place over the group; see `Reduction`."""
        check_bucket(bucket)
        vector = bucket.detach()
        if vector.device.type == "cpu":
            self.group.sum(vector)
            return
        host = self._room_for(vector)
        host.copy_(vector)
        self.group.sum(host)
        self._upload.start(host, vector)

    def _room_for(self, vector: Tensor) -> Tensor:
        """Pinned memory for a vector, reused for all."""
        self._upload.wait()
        if len(self._host) < len(vector):
            self._host = pinned_zeros(len(vector), device=vector.device)
        return self._host[: len(vector)]
