"""A tree of sums, from which leaves are drawn in proportion to their weights, on any device."""

import numpy as np
import torch
from torch import Tensor

from gmi_drl.replay.indices import index_of

ARITY = 32
"""Children of a node."""

TOP = 32768
"""Nodes of the highest level, at most. Its running sums are searched as they are. For a million leaves that takes 0.6
of the time of levels up to one root, and there are fewer sums to keep."""

_BITS = 5


class SumTree:
    """Levels of sums, each node the sum of 32 below. Sums are made anew from what is below, so they do not drift.

    Nothing waits for a GPU.

    Args:
        capacity: Leaves, all of weight 0.
        device: Of all tensors.

    Attributes:
        levels: Weights, then sums, the highest last; float64.
        leaves: The lowest level: weights `[capacity or more]`.
    """

    def __init__(self, capacity: int, device: torch.device | str = "cpu") -> None:
        highest, below = capacity, 0
        while highest > TOP:
            highest, below = -(-highest // ARITY), below + 1
        sizes = [highest * ARITY**height for height in range(below, -1, -1)]
        self.levels = [torch.zeros(size, dtype=torch.float64, device=device) for size in sizes]
        self.leaves = self.levels[0]
        self._running = torch.zeros_like(self.levels[-1])
        self._zero = torch.zeros((), dtype=torch.float64, device=device)
        self._below_total = torch.zeros_like(self._running[:1])
        self._is_stale, self._is_on_cpu = False, self.leaves.device.type == "cpu"

    @property
    def total(self) -> Tensor:
        """Sum of all weights, `[]`."""
        return self.running_sums()[-1]

    def set(self, leaves: Tensor, weights: Tensor) -> None:
        """Give leaves `[n]` other weights `[n]`. Of a leaf that is there twice the last weight counts (on a CPU)."""
        index = index_of(leaves) if self._is_on_cpu else leaves
        if isinstance(index, slice):
            self._set_row(index, weights)
            return
        if self._is_on_cpu:
            self.leaves.numpy()[index] = weights.numpy()
        else:
            self.leaves[leaves] = weights
        self._is_stale = True
        nodes = leaves
        for below, level in zip(self.levels, self.levels[1:], strict=False):
            nodes = nodes >> _BITS
            level.index_copy_(0, nodes, below.view(-1, ARITY).index_select(0, nodes).sum(1))

    def _set_row(self, row: slice, weights: Tensor) -> None:
        """The same on a CPU for leaves that lie side by side, whose sums do, too."""
        self.leaves.numpy()[row] = weights.numpy()
        self._is_stale = True
        first, end = row.start, row.stop
        for below, level in zip(self.levels, self.levels[1:], strict=False):
            first, end = first >> _BITS, -(-end >> _BITS)
            torch.sum(below.view(-1, ARITY)[first:end], 1, out=level[first:end])

    def running_sums(self) -> Tensor:
        """Of the highest level; the next call writes them over."""
        if self._is_stale or not self._is_on_cpu:  # a CUDA graph must not keep that they were not stale
            torch.cumsum(self.levels[-1], 0, out=self._running)
            torch.nextafter(self._running[-1:], self._zero, out=self._below_total)
            self._is_stale = False
        return self._running

    def find(self, points: Tensor) -> Tensor:
        """The leaves `[n]` at which the running sum of all weights passes points `[n]` from 0 to below the total.

        A leaf of weight 0 is never found, unless all are.
        """
        running = self.running_sums()
        points = torch.minimum(points, self._below_total)
        nodes = _passed(running, points, self._is_on_cpu).clamp_(max=len(running) - 1)
        before = running.index_select(0, nodes).sub_(self.levels[-1].index_select(0, nodes))
        for level in reversed(self.levels[:-1]):
            rows = level.view(-1, ARITY).index_select(0, nodes)
            sums = rows.cumsum(1)
            most = sums[:, -1].nextafter(self._zero)  # sums of a node may have been rounded otherwise
            points = torch.clamp(points.sub_(before), self._zero, most)
            child = torch.searchsorted(sums, points[:, None], right=True).clamp_(max=ARITY - 1)
            nodes = (nodes << _BITS).add_(child[:, 0])
            if level is not self.leaves:
                before = (sums.gather(1, child) - rows.gather(1, child))[:, 0]
        return nodes

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw `count` leaves with replacement, in proportion to their weights."""
        points = torch.rand(count, dtype=torch.float64, generator=generator, device=self.leaves.device)
        return self.find(points * self.total)

    def load(self, levels: list[Tensor]) -> None:
        """Take over the levels of another tree of the same capacity."""
        for level, other in zip(self.levels, levels, strict=True):
            level.copy_(other)
        self._is_stale = True

    def clear(self) -> None:
        """Give all leaves the weight 0."""
        for level in self.levels:
            level.zero_()
        self._is_stale = True


def _passed(sums: Tensor, points: Tensor, is_on_cpu: bool) -> Tensor:
    """How many of the ascending sums are not above each of the points.

    On a CPU the points are sorted for it: neighbours take the same branches, which halves the time of 1,024.
    """
    if not is_on_cpu:
        return torch.searchsorted(sums, points, right=True)
    values = points.numpy()
    order, found = values.argsort(), np.empty(len(values), dtype=np.int64)
    found[order] = sums.numpy().searchsorted(values[order], "right")
    return torch.from_numpy(found)
