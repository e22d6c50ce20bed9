"""The tree of sums on a CPU: what is small is computed by numpy, whose calls take a third of torch's."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmi_drl.replay.indices import Integers, index_of_slots, zeros
from gmi_drl.replay.selectors.sum_tree import ARITY, BITS, SumTree, sizes_of_levels


class HostSumTree(SumTree):
    """A `SumTree` on the CPU. Running sums are made anew when weights have changed.

    Args:
        capacity: Leaves, all of weight 0.
    """

    def __init__(self, capacity: int) -> None:
        self.levels = [zeros(size, dtype=torch.float64) for size in sizes_of_levels(capacity)]
        self.leaves = self.levels[0]
        self.weights = self.leaves.numpy()  # the same memory, as that of those that follow
        self._rows = [level.numpy().reshape(-1, ARITY) for level in self.levels[:-1]]
        self._sums = [level.numpy() for level in self.levels[1:]]
        self._running = zeros(len(self.levels[-1]) + 1, dtype=torch.float64)  # the first is 0
        self._passed = self._running.numpy()
        self._is_stale = False

    @property
    def sum(self) -> float:
        """Sum of all weights."""
        self.running_sums()
        return float(self._passed[-1])

    def set(self, leaves: Tensor, weights: Tensor) -> None:
        """Give leaves `[n]` other weights `[n]`. Of a leaf that is there twice the last weight counts."""
        self._is_stale = True
        index = index_of_slots(leaves)
        self.weights[index] = weights.numpy()
        if isinstance(index, slice):
            self._sum_row(index)
            return
        nodes = index
        for rows, sums in zip(self._rows, self._sums, strict=True):
            nodes = nodes >> BITS
            sums[nodes] = torch.from_numpy(rows.take(nodes, 0)).sum(1).numpy()

    def _sum_row(self, row: slice) -> None:
        """Sums of leaves that lie side by side do, too."""
        first, end = row.start, row.stop
        for below, level in zip(self.levels, self.levels[1:], strict=False):
            first, end = first >> BITS, -(-end >> BITS)
            torch.sum(below.view(-1, ARITY)[first:end], 1, out=level[first:end])

    def running_sums(self) -> Tensor:
        """See `SumTree`."""
        if self._is_stale:
            torch.cumsum(self.levels[-1], 0, out=self._running[1:])
            self._is_stale = False
        return self._running[1:]

    def find(self, points: Tensor) -> Tensor:
        """See `SumTree`. The points are sorted for it: neighbours read the same memory."""
        return torch.from_numpy(self._find(points.numpy()))

    def _find(self, points: NDArray[np.float64]) -> Integers:
        self.running_sums()
        order, passed = points.argsort(), self._passed
        left = np.minimum(points.take(order), np.nextafter(passed[-1], 0))
        nodes = np.minimum(passed.searchsorted(left, "right"), len(passed) - 1) - 1
        before = passed.take(nodes)
        for number in range(len(self._rows) - 1, -1, -1):
            rows = self._rows[number].take(nodes, 0)
            sums = torch.from_numpy(rows).cumsum(1)
            left -= before
            most = np.nextafter(sums.numpy()[:, -1], 0)  # sums of a node may have been rounded otherwise
            left = np.minimum(np.maximum(left, 0), most)
            child = torch.searchsorted(sums, torch.from_numpy(left)[:, None], right=True).numpy()[:, 0]
            child = np.minimum(child, ARITY - 1)
            nodes = (nodes << BITS) + child
            if number:
                each = np.arange(len(nodes))
                before = sums.numpy()[each, child] - rows[each, child]
        found: Integers = np.empty_like(nodes)
        found[order] = nodes
        return found

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw `count` leaves with replacement, in proportion to their weights."""
        points = torch.rand(count, dtype=torch.float64, generator=generator).numpy()
        return torch.from_numpy(self._find(points * self.sum))

    def load(self, levels: list[Tensor]) -> None:
        """See `SumTree`."""
        super().load(levels)
        self._is_stale = True

    def clear(self) -> None:
        """See `SumTree`."""
        super().clear()
        self._is_stale = True
