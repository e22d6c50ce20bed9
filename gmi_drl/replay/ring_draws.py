"""Which windows of a ring are drawn: each with the same probability, or by priorities."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers
from gmi_drl.replay.selectors.host_sum_tree import HostSumTree, sum_tree
from gmi_drl.replay.selectors.prioritized import weights_of
from gmi_drl.replay.windows import Windows

if TYPE_CHECKING:
    from gmi_drl.replay.ring import Ring

ROUNDS = 1000
"""Draws anew of windows that are not valid, on a CPU."""

AT_ONCE = 65_536
"""Windows that get weights at once."""

OVERDRAWN = 4
"""Times the windows that are drawn at once on a GPU, whose valid ones are taken: looking would wait for it."""


class Draw(NamedTuple):
    """B windows.

    Args:
        keys: int64 `[B]`.
        rows: Of the ring in which they begin, int64 `[B]`.
        probabilities: float64 `[B]`.
        windows: What they are.
    """

    keys: Tensor
    rows: Tensor
    probabilities: Tensor
    windows: Windows


class UniformDraws:
    """Draws from all steps at which a window is complete, and again what is not valid, which is exact.

    Args:
        device: Of the ring.
        seed: Of the generator.
    """

    def __init__(self, device: torch.device, seed: int) -> None:
        self.device = device
        self.generator = torch.Generator(device).manual_seed(seed)
        self._span = torch.zeros(2, dtype=torch.float64, device=device)  # first key, number of keys

    def added(self, ring: "Ring", row: int) -> None:
        """A step was written to the rows from `row` on."""
        self.completed(ring)

    def completed(self, ring: "Ring") -> None:
        """Note which windows there are, where a CUDA graph can read it."""
        if self.device.type != "cpu":
            self._span[0].fill_(ring.first * ring.num_env)
            self._span[1].fill_((ring.end - ring.first) * ring.num_env)

    def begin(self, ring: "Ring") -> None:
        """The ring has other steps."""
        self.completed(ring)

    def mass(self, ring: "Ring") -> Tensor:
        """The number of windows, float64 `[]`."""
        return torch.full((), float(ring.windows), dtype=torch.float64, device=self.device)

    def draw(self, ring: "Ring", count: int) -> Draw:
        """Draw with replacement. Probabilities are those of all complete windows, valid or not."""
        size = ring.windows
        probabilities = torch.full((count,), 1 / size, dtype=torch.float64, device=self.device)
        if self.device.type != "cpu":
            return self._drawn_blindly(ring, count, probabilities)
        keys = self._keys(ring, count)
        for _ in range(ROUNDS):
            rows = keys % ring.total
            windows = ring.windows_at(rows)
            if bool(windows.is_valid.all()):
                return Draw(keys, rows, probabilities, windows)
            again = (~windows.is_valid).nonzero().flatten()
            keys[again] = self._keys(ring, len(again))
        raise UsageError(f"of {size} windows none or few are valid: are steps of the environments transitions?")

    def updated(self, ring: "Ring", keys: Tensor, priorities: Tensor) -> None:
        """Priorities do not matter."""

    def state_dict(self) -> dict[str, Tensor]:
        """The generator."""
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor], ring: "Ring") -> None:
        """Take over a generator. The ring has its steps already."""
        self.generator.set_state(state["generator"])
        self.completed(ring)

    def _keys(self, ring: "Ring", count: int) -> Tensor:
        first, end = ring.first * ring.num_env, ring.end * ring.num_env
        return torch.randint(first, end, (count,), generator=self.generator)

    def _drawn_blindly(self, ring: "Ring", count: int, probabilities: Tensor) -> Draw:
        """Draw more than enough, and take the first valid ones; if there are fewer, some twice."""
        points = torch.rand(OVERDRAWN * count, dtype=torch.float64, generator=self.generator, device=self.device)
        keys = (self._span[0] + points * self._span[1]).to(torch.int64)
        rows = keys % ring.total
        is_valid = ring.windows_at(rows).is_valid
        order = torch.argsort(is_valid.to(torch.uint8), descending=True, stable=True)
        wanted = torch.arange(count, device=self.device) % is_valid.sum().clamp_(min=1)
        chosen = order[wanted]
        return Draw(keys[chosen], rows[chosen], probabilities, ring.windows_at(rows[chosen]))


class PrioritizedDraws:
    """Draws windows by priority ** C. A window has weight as soon as it is complete, if it is valid.

    Args:
        device: Of the ring.
        seed: Of the generator.
        total: Rows of the ring.
        num_env: N.
        exponent: C.
        depth: Steps whose pictures a stack has: where the oldest is gone, a window is, too.
    """

    def __init__(self, device: torch.device, seed: int, total: int, num_env: int, exponent: float, depth: int) -> None:
        self._uniform, self._exponent, self._num_env = UniformDraws(device, seed), exponent, num_env
        self._tree = sum_tree(total, device)
        self._is_drawn = torch.zeros(total, dtype=torch.bool, device=device)
        self._highest = torch.ones(1, dtype=torch.float64, device=device)
        self._each = torch.arange(depth * num_env, device=device)
        self._end = 0  # one after the last step whose windows have weights

    def added(self, ring: "Ring", row: int) -> None:
        """Windows that began in the rows from `row` on are gone; others may be complete."""
        gone = (self._each + row) % ring.total
        self._is_drawn.index_fill_(0, gone, False)  # by index, a GPU would wait for the host's False
        self._tree.set(gone, torch.zeros(len(gone), dtype=torch.float64, device=gone.device))
        self.completed(ring)

    def completed(self, ring: "Ring") -> None:
        """Give weights to windows that have become complete: of several steps where a device gets them at once."""
        self._uniform.completed(ring)
        end = ring.end * self._num_env
        for first in range(max(self._end, ring.first) * self._num_env, end, AT_ONCE):
            keys = torch.arange(first, min(first + AT_ONCE, end), device=self._each.device)
            rows = keys % ring.total
            is_valid = ring.windows_at(rows).is_valid
            self._is_drawn[rows] = is_valid
            self._tree.set(rows, weights_of(self._highest.expand(len(rows)), self._exponent) * is_valid)
        self._end = ring.end

    def begin(self, ring: "Ring") -> None:
        """The ring has other steps, all of which have the highest priority."""
        self._is_drawn.zero_()
        self._tree.clear()
        self._end = 0
        self.completed(ring)

    def mass(self, ring: "Ring") -> Tensor:
        """The sum of all weights, float64 `[]`."""
        return self._tree.total.clone()

    def draw(self, ring: "Ring", count: int) -> Draw:
        """Draw with replacement; uniformly if all weights are 0."""
        tree, generator = self._tree, self._uniform.generator
        if isinstance(tree, HostSumTree) and not tree.sum:
            return self._uniform.draw(ring, count)
        rows = tree.draw(count, generator)
        written = ring.written * self._num_env
        head = written % ring.total  # where the next step goes: rows from there on are of the round before
        if isinstance(tree, HostSumTree):
            places = rows.numpy()
            keys = torch.from_numpy(places + (written - head) - ring.total * (places >= head))
            probabilities = torch.from_numpy(tree.weights.take(places) / tree.sum)
        else:
            keys = torch.add(rows, rows >= head, alpha=-ring.total).add_(written - head)
            probabilities = tree.leaves.index_select(0, rows).div_(tree.total)
        return Draw(keys, rows, probabilities, ring.windows_at(rows))

    def updated(self, ring: "Ring", keys: Tensor, priorities: Tensor) -> None:
        """Note other priorities of windows that are still there."""
        if isinstance(self._tree, HostSumTree):
            self._updated_on_host(ring, keys.numpy(), priorities.to(torch.float64).numpy())
            return
        rows, priorities = keys % ring.total, priorities.to(torch.float64)
        is_there = (keys >= ring.first * self._num_env) & (keys < ring.end * self._num_env) & self._is_drawn[rows]
        weights = weights_of(priorities, self._exponent)
        self._tree.set(rows, torch.where(is_there, weights, self._tree.leaves[rows]))
        torch.maximum(self._highest, priorities.max(), out=self._highest)

    def _updated_on_host(self, ring: "Ring", keys: Integers, priorities: NDArray[np.float64]) -> None:
        highest = priorities.max()
        if not (priorities.min() >= 0 and highest < np.inf):  # neither if one is no number
            raise UsageError("a priority must be a number of 0 or more")
        rows = keys % ring.total
        is_there = (keys >= ring.first * self._num_env) & (keys < ring.end * self._num_env)
        is_there &= self._is_drawn.numpy()[rows]
        if not is_there.all():
            rows, priorities = rows[is_there], priorities[is_there]
        self._tree.set(torch.from_numpy(rows), weights_of(torch.from_numpy(priorities), self._exponent))
        self._highest.clamp_(min=float(highest))

    def state_dict(self) -> dict[str, Tensor]:
        """Weights, the highest priority, the generator."""
        levels = {f"level_{number}": level for number, level in enumerate(self._tree.levels)}
        return levels | {"is_drawn": self._is_drawn, "highest": self._highest} | self._uniform.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor], ring: "Ring") -> None:
        """Take over a `state_dict` of the same sizes. The ring has its steps already: all windows have weights."""
        self._tree.load([state[f"level_{number}"] for number in range(len(self._tree.levels))])
        self._is_drawn.copy_(state["is_drawn"])
        self._highest.copy_(state["highest"])
        self._uniform.load_state_dict(state, ring)
        self._end = ring.end
