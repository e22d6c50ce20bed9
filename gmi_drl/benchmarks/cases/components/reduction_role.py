"""The role of the reduction cases: it reduces in the group that the launcher names, and reports how long that took."""

import statistics
import time
from collections.abc import Callable

import torch

from gmi_drl.comm.reduction import Reduction
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.launcher.protocol import Reduce

WARM_UP = 20
POLL_S = 1e-3


class Reducer(DRL_role):
    """A rank of every group. It reduces when it is asked to, until the launcher ends it."""

    def GMI_run(self, numels: dict[str, int], reduces: dict[str, int]) -> None:
        """Measure a group whenever the launcher asks for it.

        Args:
            numels: Float32 numbers to reduce, by group.
            reduces: Reduces in one measurement, by group.
        """
        buckets = {
            name: Bucket(self.mgr.reduction(self.mgr.named_group(name)), numel, reduces[name])
            for name, numel in numels.items()
        }
        while True:
            for word in self.mgr.launcher.messages():
                assert isinstance(word, Reduce)
                row = buckets[word.group].measure()
                if self.GMI_id == 0:
                    self.mgr.report(row)
            time.sleep(POLL_S)


class Bucket:
    """The gradients of one group, and its reduction."""

    def __init__(self, reduction: Reduction, numel: int, reduces: int) -> None:
        self.reduction, self.reduces = reduction, reduces
        self.gradients = reduction.bucket(numel)
        self.source, self.target = torch.randn(numel), torch.zeros(numel)

    def measure(self) -> dict[str, float]:
        """Median seconds of a reduce, and of a copy of the same bytes within this process."""
        self.reduction.group.barrier()
        self._median_s(self._reduce, WARM_UP)
        row = {"median_s": self._median_s(self._reduce, self.reduces), "copy_s": self._median_s(self._copy, WARM_UP)}
        self.reduction.group.barrier()
        return row

    def _reduce(self) -> None:
        self.reduction.reduce(self.gradients)

    def _copy(self) -> None:
        self.target.copy_(self.gradients)

    def _median_s(self, timed: Callable[[], None], repeats: int) -> float:
        """Median seconds of a call. Before each, this core writes the bucket anew, as a backward pass does."""
        times = []
        for _ in range(repeats):
            self.gradients.copy_(self.source)
            start = time.perf_counter()
            timed()
            times.append(time.perf_counter() - start)
        return statistics.median(times)
