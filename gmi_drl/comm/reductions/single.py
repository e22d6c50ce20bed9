"""The reduction of a group of one process: nothing to sum."""

import torch
from torch import Tensor

from gmi_drl.comm.groups.single import SingleRankGroup
from gmi_drl.comm.reduction import PlainBucket, check_bucket


class NoReduction(PlainBucket):
    """The `Reduction` of a group of one process: the sum over one rank is the vector itself."""

    def __init__(self, group: SingleRankGroup | None = None, device: torch.device | str = "cpu") -> None:
        self.group = group or SingleRankGroup()
        super().__init__(device)

    def reduce(self, bucket: Tensor) -> None:
        """Check the tensor and leave it as it is; see `Reduction`."""
        check_bucket(bucket)
