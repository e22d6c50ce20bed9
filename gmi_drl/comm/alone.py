"""A group of one and its reduction: nobody to wait for, nothing to sum."""

import torch
from torch import Tensor

from gmi_drl.comm.group import check_values
from gmi_drl.comm.reduction import PlainBucket, check_bucket


class Alone:
    """The `Group` of one process."""

    def __init__(self, rank: int = 0, size: int = 1, place: None = None, hang_s: float = 0.0) -> None:
        """Takes what every group takes, of which nothing is needed."""
        self.rank = 0
        self.size = 1
        self.wait_s = 0.0

    def gather(self, values: Tensor) -> Tensor:
        """A copy as `[1, n]`; see `Group`."""
        check_values(values)
        return values.detach().clone().unsqueeze(0)

    def barrier(self) -> None:
        """Nobody to wait for."""

    def close(self) -> None:
        """Nothing to give back."""


class Solo(PlainBucket):
    """The `Reduction` of a group of one: a sum over one rank is the vector itself."""

    def __init__(self, group: Alone | None = None, device: torch.device | str = "cpu") -> None:
        self.group = group or Alone()
        super().__init__(device)

    def reduce(self, bucket: Tensor) -> None:
        """Check the tensor and leave it as it is; see `Reduction`."""
        check_bucket(bucket)
