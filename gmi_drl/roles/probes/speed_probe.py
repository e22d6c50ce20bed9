"""The role that measures how fast groups reduce."""

import statistics
import time
from contextlib import suppress

import torch
from torch import Tensor

from gmi_drl.comm.reduction import Reduction
from gmi_drl.errors import MachineError
from gmi_drl.roles.drl_role import DRL_role

WARM_UP = 5
MOST = 2000


class SpeedProbe(DRL_role):
    """One rank of every group of its layout."""

    def GMI_run(self, numels: dict[str, int], seconds: float) -> dict[str, float]:
        """The median time in seconds of a reduction, by group, when its ranks reduce again and again as in a training.

        A group is left out if this machine cannot run its reduction, which is then so for all its ranks.

        Args:
            numels: How many float32 numbers to reduce, by group.
            seconds: About how long to measure each group.
        """
        times = {}
        for name, numel in numels.items():
            with suppress(MachineError):
                times[name] = self._median_s(name, numel, seconds)
        return times

    def _median_s(self, name: str, numel: int, seconds: float) -> float:
        reduction = self.mgr.reduction(self.mgr.named_group(name))
        bucket = reduction.bucket(numel)
        first_s = statistics.median(self._reduced_s(reduction, bucket) for _ in range(WARM_UP))
        slowest_s = reduction.group.gather(torch.tensor([first_s], dtype=torch.float64)).max().item()
        count = min(MOST, WARM_UP + int(seconds / slowest_s))  # the same on all ranks
        return statistics.median(self._reduced_s(reduction, bucket) for _ in range(count))

    def _reduced_s(self, reduction: Reduction, bucket: Tensor) -> float:
        """Seconds of one reduction of numbers that have just been written, as by a backward pass."""
        bucket.fill_(1.0)
        if bucket.is_cuda:
            torch.cuda.synchronize()
        started = time.perf_counter()
        reduction.reduce(bucket)
        if bucket.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - started
