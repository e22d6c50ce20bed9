"""A tree of sums, from which leaves are drawn in proportion to their weights, on any device."""

import torch
from torch import Tensor

ARITY = 32
"""Children of a node."""

TOP = 32768
"""Nodes of the highest level, at most. Its running sums are searched as they are. For a million leaves that takes 0.6
of the time of levels up to one root, and there are fewer sums to keep."""

BITS = 5


class SumTree:
    """Levels of sums, each node the sum of 32 below. Sums are made anew from what is below, so they do not drift.

    Nothing waits for a GPU. On a CPU `HostSumTree` does the same in half the time.

    Args:
        capacity: Leaves, all of weight 0.
        device: Of all tensors.

    Attributes:
        levels: Weights, then sums, the highest last; float64.
        leaves: The lowest level: weights `[capacity or more]`.
    """

    def __init__(self, capacity: int, device: torch.device | str) -> None:
        self.levels = [torch.zeros(size, dtype=torch.float64, device=device) for size in sizes_of_levels(capacity)]
        self.leaves = self.levels[0]
        self._running = torch.zeros_like(self.levels[-1])
        self._zero = torch.zeros((), dtype=torch.float64, device=device)
        self._below_total = torch.zeros_like(self._running[:1])

    @property
    def total(self) -> Tensor:
        """Sum of all weights, `[]`."""
        return self.running_sums()[-1]

    def set(self, leaves: Tensor, weights: Tensor) -> None:
        """Give leaves `[n]` other weights `[n]`. Of a leaf that is there twice one of the weights counts."""
        self.leaves[leaves] = weights
        nodes = leaves
        for below, level in zip(self.levels, self.levels[1:], strict=False):
            nodes = nodes >> BITS
            level.index_copy_(0, nodes, below.view(-1, ARITY).index_select(0, nodes).sum(1))

    def running_sums(self) -> Tensor:
        """Of the highest level. Made anew each time, in the same memory: a CUDA graph must not keep that they were."""
        torch.cumsum(self.levels[-1], 0, out=self._running)
        torch.nextafter(self._running[-1:], self._zero, out=self._below_total)
        return self._running

    def find(self, points: Tensor) -> Tensor:
        """The leaves `[n]` at which the running sum of all weights passes points `[n]` from 0 to below the total.

        A leaf of weight 0 is never found, unless all are.
        """
        running = self.running_sums()
        points = torch.minimum(points, self._below_total)
        nodes = torch.searchsorted(running, points, right=True).clamp_(max=len(running) - 1)
        before = running.index_select(0, nodes).sub_(self.levels[-1].index_select(0, nodes))
        for level in reversed(self.levels[:-1]):
            rows = level.view(-1, ARITY).index_select(0, nodes)
            sums = rows.cumsum(1)
            most = sums[:, -1].nextafter(self._zero)  # sums of a node may have been rounded otherwise
            points = torch.clamp(points.sub_(before), self._zero, most)
            child = torch.searchsorted(sums, points[:, None], right=True).clamp_(max=ARITY - 1)
            nodes = (nodes << BITS).add_(child[:, 0])
            if level is not self.leaves:
                before = (sums.gather(1, child) - rows.gather(1, child))[:, 0]
        return nodes

    def load(self, levels: list[Tensor]) -> None:
        """Take over the levels of another tree of the same capacity."""
        for level, other in zip(self.levels, levels, strict=True):
            level.copy_(other)

    def clear(self) -> None:
        """Give all leaves the weight 0."""
        for level in self.levels:
            level.zero_()


def sizes_of_levels(capacity: int) -> list[int]:
    """Nodes of each level, the leaves first."""
    highest, below = capacity, 0
    while highest > TOP:
        highest, below = -(-highest // ARITY), below + 1
    return [highest * ARITY**height for height in range(below, -1, -1)]
