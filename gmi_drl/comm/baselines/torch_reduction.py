"""Reduction by `torch.distributed`, as its users do it: a baseline."""

import torch
from torch import Tensor

from gmi_drl.comm.baselines.torch_group import TorchGroup
from gmi_drl.comm.reduction import PlainBucket, check_bucket


class TorchReduction(PlainBucket):
    """A `Reduction` by `torch.distributed.all_reduce`.

    On cores it is gloo's sum, as in MPR-gloo, and differs only by the cost of torch's front end. On GPUs it is NCCL's;
    the host waits for it and checks the peers, which torch's users do without.

    Args:
        group: The ranks.
        device: Where this rank's bucket shall be; if it is a GPU, NCCL sums.

    Raises:
        See `TorchGroup.join_gpus`.
    """

    def __init__(self, group: TorchGroup, device: torch.device | str = "cpu") -> None:
        self.group = group
        if torch.device(device).type == "cuda":
            group.join_gpus()
        super().__init__(device)

    def reduce(self, bucket: Tensor) -> None:
        """Sum in place over the group; see `Reduction`."""
        check_bucket(bucket)
        self.group.sum(bucket.detach())
