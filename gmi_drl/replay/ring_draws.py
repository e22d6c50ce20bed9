"""Which windows of a ring are drawn: each with the same probability, or by priorities."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.selectors.prioritized import weights_of
from gmi_drl.replay.selectors.sum_tree import SumTree
from gmi_drl.replay.windows import Windows

if TYPE_CHECKING:
    from gmi_drl.replay.ring import Ring

ROUNDS = 1000
"""Draws anew of windows that are not valid, on a CPU."""

AT_ONCE = 65_536
"""Windows that get weights at once."""

OVERDRAWN = 4
"""Times the windows that are drawn at once on a GPU, whose valid ones are taken: looking would wait for it."""

Draw = tuple[Tensor, Tensor, Windows]
"""Keys `[B]`, probabilities float64 `[B]`, windows."""


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
        windows = ring.windows_at(keys)
        for _ in range(ROUNDS):
            if bool(windows.is_valid.all()):
                return keys, probabilities, windows
            again = (~windows.is_valid).nonzero().flatten()
            keys[again] = self._keys(ring, len(again))
            windows = ring.windows_at(keys)
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
        is_valid = ring.windows_at(keys).is_valid
        order = torch.argsort(is_valid.to(torch.uint8), descending=True, stable=True)
        wanted = torch.arange(count, device=self.device) % is_valid.sum().clamp_(min=1)
        keys = keys[order[wanted]]
        return keys, probabilities, ring.windows_at(keys)


class PrioritizedDraws:
    """Draws windows by priority ** C. A window has weight as soon as it is complete, if it is valid.

    Args:
        device: Of the ring.
        seed: Of the generator.
        total: Rows of the ring.
        num_env: N.
        exponent: C.
    """

    def __init__(self, device: torch.device, seed: int, total: int, num_env: int, exponent: float) -> None:
        self._uniform, self._exponent, self._num_env = UniformDraws(device, seed), exponent, num_env
        self._tree = SumTree(total, device)
        self._is_drawn = torch.zeros(total, dtype=torch.bool, device=device)
        self._highest = torch.ones(1, dtype=torch.float64, device=device)
        self._each = torch.arange(num_env, device=device)
        self._end = 0  # one after the last step whose windows have weights

    def added(self, ring: "Ring", row: int) -> None:
        """Windows that began in the rows from `row` on are gone; others may be complete."""
        gone = self._each + row
        self._is_drawn[gone] = False
        self._tree.set(gone, torch.zeros(self._num_env, dtype=torch.float64, device=gone.device))
        self.completed(ring)

    def completed(self, ring: "Ring") -> None:
        """Give weights to windows that have become complete: of several steps where a device gets them at once."""
        self._uniform.completed(ring)
        end = ring.end * self._num_env
        for first in range(max(self._end, ring.first) * self._num_env, end, AT_ONCE):
            keys = torch.arange(first, min(first + AT_ONCE, end), device=self._each.device)
            rows, is_valid = keys % ring.total, ring.windows_at(keys).is_valid
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
        if self._is_drawn.device.type == "cpu" and not self._tree.total:
            return self._uniform.draw(ring, count)
        rows = self._tree.draw(count, self._uniform.generator)
        newest = ring.written - 1
        steps = newest - (newest - torch.div(rows, self._num_env, rounding_mode="floor")) % ring.steps
        keys = steps * self._num_env + rows % self._num_env
        return keys, self._tree.leaves.index_select(0, rows).div_(self._tree.total), ring.windows_at(keys)

    def updated(self, ring: "Ring", keys: Tensor, priorities: Tensor) -> None:
        """Note other priorities of windows that are still there."""
        rows, priorities = keys % ring.total, priorities.to(torch.float64)
        is_there = (keys >= ring.first * self._num_env) & (keys < ring.end * self._num_env) & self._is_drawn[rows]
        weights = weights_of(priorities, self._exponent)
        if rows.device.type == "cpu":
            if not bool(((priorities >= 0) & priorities.isfinite()).all()):
                raise UsageError("a priority must be a number of 0 or more")
            self._tree.set(rows[is_there], weights[is_there])
        else:
            self._tree.set(rows, torch.where(is_there, weights, self._tree.leaves[rows]))
        torch.maximum(self._highest, priorities.max(), out=self._highest)

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
