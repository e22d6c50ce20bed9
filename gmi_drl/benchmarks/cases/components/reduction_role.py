"""The role of the reduction cases: reduces by the group that the launcher names, and says how long that took."""

import statistics
import time
from collections.abc import Callable

import torch

from gmi_drl.comm.reduction import Reduction
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.launcher.protocol import Reduce

WARM_UP = 20
LOOK_EVERY_S = 1e-3


class Reducer(DRL_role):
    """One rank of every group. It ends with the launcher."""

    def GMI_run(self, numels: dict[str, int], reduces: dict[str, int]) -> None:
        """Measure the groups that the launcher asks for: so many numbers each, so many times."""
        stations = {
            name: Station(self.mgr.reduction(self.mgr.named_group(name)), numel, reduces[name])
            for name, numel in numels.items()
        }
        while True:
            for word in self.mgr.line.words():
                assert isinstance(word, Reduce)
                row = stations[word.group].measure()
                if self.GMI_id == 0:
                    self.mgr.report(row)
            time.sleep(LOOK_EVERY_S)


class Station:
    """One reduction with its bucket."""

    def __init__(self, reduction: Reduction, numel: int, reduces: int) -> None:
        self.reduction, self.reduces = reduction, reduces
        self.bucket = reduction.bucket(numel)
        self.gradient, self.elsewhere = torch.randn(numel), torch.zeros(numel)

    def measure(self) -> dict[str, float]:
        """Seconds of a reduce, and of a copy of the same bytes within this process."""
        self.reduction.group.barrier()
        self._median_s(self._reduce, WARM_UP)
        row = {"median_s": self._median_s(self._reduce, self.reduces), "copy_s": self._median_s(self._copy, WARM_UP)}
        self.reduction.group.barrier()
        return row

    def _reduce(self) -> None:
        self.reduction.reduce(self.bucket)

    def _copy(self) -> None:
        self.elsewhere.copy_(self.bucket)

    def _median_s(self, timed: Callable[[], None], repeats: int) -> float:
        """The median time of a call which finds its bucket freshly written by this core, as after a backward pass."""
        times = []
        for _ in range(repeats):
            self.bucket.copy_(self.gradient)
            start = time.perf_counter()
            timed()
            times.append(time.perf_counter() - start)
        return statistics.median(times)
