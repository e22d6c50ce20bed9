"""Which windows of a ring are drawn: each with the same probability, or by priorities."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers
from gmi_drl.replay.selectors import Prioritized, Selector, Uniform
from gmi_drl.replay.selectors.host_sum_tree import HostSumTree, sum_tree
from gmi_drl.replay.selectors.prioritized import weights_of
from gmi_drl.replay.valid_windows import ValidWindows
from gmi_drl.replay.windows import Windows

if TYPE_CHECKING:
    from gmi_drl.replay.ring import Ring

ROUNDS = 1000
"""Draws anew of windows that are not valid, on a CPU."""


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


class HostUniformDraws:
    """Draws on a CPU: from all complete windows, and again what is not valid, which is exact.

    Args:
        generator: Of the ring's device.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def renew(self, ring: "Ring") -> None:
        """A step was added: what is drawn is looked at when it is drawn."""

    def begin(self, ring: "Ring") -> None:
        """The ring has other steps."""

    def mass(self, ring: "Ring") -> Tensor:
        """The number of windows, float64 `[]`."""
        return torch.full((), float(ring.windows), dtype=torch.float64, device=ring.device)

    def draw(self, ring: "Ring", count: int) -> Draw:
        """Draw with replacement. Probabilities are those of all complete windows, valid or not.

        Raises:
            UsageError: if none or few are valid.
        """
        keys = self._keys(ring, count)
        for _ in range(ROUNDS):
            rows = keys % ring.total
            windows = ring.windows_at(rows)
            if bool(windows.is_valid.all()):
                return Draw(keys, rows, _even(ring, count), windows)
            again = (~windows.is_valid).nonzero().flatten()
            keys[again] = self._keys(ring, len(again))
        raise UsageError(f"of {ring.windows} windows none or few are valid: are steps of the environments transitions?")

    def updated(self, ring: "Ring", keys: Tensor, priorities: Tensor) -> None:
        """Priorities do not matter."""

    def state_dict(self) -> dict[str, Tensor]:
        """The generator."""
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor], ring: "Ring") -> None:
        """Take over a generator. The ring has its steps already."""
        self.generator.set_state(state["generator"])
        self.begin(ring)

    def _keys(self, ring: "Ring", count: int) -> Tensor:
        first, end = ring.first * ring.num_env, ring.end * ring.num_env
        return torch.randint(first, end, (count,), generator=self.generator)


class UniformDraws(HostUniformDraws):
    """Draws on any device, from all valid windows. Nothing waits for a GPU.

    Args:
        generator: Of the device.
        total: Rows of the ring.
        device: Of the ring.
    """

    def __init__(self, generator: torch.Generator, total: int, device: torch.device) -> None:
        super().__init__(generator)
        self._windows = ValidWindows(total, device)

    def begin(self, ring: "Ring") -> None:
        """See `HostUniformDraws`."""
        self._windows.forget()

    def draw(self, ring: "Ring", count: int) -> Draw:
        """See `HostUniformDraws`; but if no window is valid, it raises nothing, and rewards are NaN."""
        self._windows.renew(ring)
        points = torch.rand(count, dtype=torch.float64, generator=self.generator, device=ring.device)
        rows = self._windows.find(points)
        return Draw(keys_of(ring, rows), rows, _even(ring, count), self._windows.at(ring, rows))


def keys_of(ring: "Ring", rows: Tensor) -> Tensor:
    """The keys `[B]` of the windows that begin in these rows `[B]`."""
    written = ring.written * ring.num_env
    head = written % ring.total  # where the next step goes: rows from there on are of the round before
    if rows.device.type == "cpu":  # by numpy, whose calls take a third of torch's
        places = rows.numpy()
        return torch.from_numpy(places + (written - head) - ring.total * (places >= head))
    return torch.add(rows, rows >= head, alpha=-ring.total).add_(written - head)


def _even(ring: "Ring", count: int) -> Tensor:
    """The probability of each complete window, if all are as likely, float64 `[count]`."""
    return torch.full((count,), 1 / ring.windows, dtype=torch.float64, device=ring.device)


class PrioritizedDraws:
    """Draws windows by priority ** C. A window has weight as soon as it is complete, if it is valid.

    Args:
        generator: Of the device.
        total: Rows of the ring.
        device: Of the ring.
        exponent: C.
    """

    def __init__(self, generator: torch.Generator, total: int, device: torch.device, exponent: float) -> None:
        self._windows, self._exponent = ValidWindows(total, device), exponent
        self._tree = sum_tree(total, device)
        self._highest = torch.ones(1, dtype=torch.float64, device=device)
        self._uniform = HostUniformDraws(generator)

    def renew(self, ring: "Ring") -> None:
        """A step was added: windows that it was written over are gone, and those that are complete now get weights."""
        highest = weights_of(self._highest, self._exponent)
        for rows, is_valid in self._windows.changes(ring):
            self._tree.set(rows, highest * is_valid)

    def begin(self, ring: "Ring") -> None:
        """The ring has other steps, all of which have the highest priority."""
        self._windows.forget()
        self._tree.clear()
        self.renew(ring)

    def mass(self, ring: "Ring") -> Tensor:
        """The sum of all weights, float64 `[]`."""
        return self._tree.total.clone()

    def draw(self, ring: "Ring", count: int) -> Draw:
        """Draw with replacement; as `UniformDraws` if all weights are 0, on a CPU as `HostUniformDraws`."""
        tree, generator = self._tree, self._uniform.generator
        if isinstance(tree, HostSumTree):
            if not tree.sum:
                return self._uniform.draw(ring, count)
            rows = tree.draw(count, generator)
            probabilities = torch.from_numpy(tree.weights.take(rows.numpy()) / tree.sum)
            return Draw(keys_of(ring, rows), rows, probabilities, ring.windows_at(rows))
        points = torch.rand(count, dtype=torch.float64, generator=generator, device=ring.device)
        total = tree.total
        rows = torch.where(total > 0, tree.find(points * total), self._windows.find(points))
        by_weight = tree.leaves.index_select(0, rows).div_(total)
        probabilities = torch.where(total > 0, by_weight, _even(ring, count))
        return Draw(keys_of(ring, rows), rows, probabilities, self._windows.at(ring, rows))

    def updated(self, ring: "Ring", keys: Tensor, priorities: Tensor) -> None:
        """Note other priorities of windows that are still there."""
        if isinstance(self._tree, HostSumTree):
            self._updated_on_host(ring, keys.numpy(), priorities.to(torch.float64).numpy())
            return
        rows, priorities = keys % ring.total, priorities.to(torch.float64)
        is_there = (keys >= ring.first * ring.num_env) & (keys < ring.end * ring.num_env) & self._windows.is_valid[rows]
        weights = weights_of(priorities, self._exponent)
        self._tree.set(rows, torch.where(is_there, weights, self._tree.leaves[rows]))
        torch.maximum(self._highest, priorities.max(), out=self._highest)

    def _updated_on_host(self, ring: "Ring", keys: Integers, priorities: NDArray[np.float64]) -> None:
        highest = priorities.max()
        if not (priorities.min() >= 0 and highest < np.inf):  # neither if one is no number
            raise UsageError("a priority must be a number of 0 or more")
        rows = keys % ring.total
        is_there = (keys >= ring.first * ring.num_env) & (keys < ring.end * ring.num_env)
        is_there &= self._windows.is_valid.numpy()[rows]
        if not is_there.all():
            rows, priorities = rows[is_there], priorities[is_there]
        self._tree.set(torch.from_numpy(rows), weights_of(torch.from_numpy(priorities), self._exponent))
        self._highest.clamp_(min=float(highest))

    def state_dict(self) -> dict[str, Tensor]:
        """Weights, the highest priority, the generator."""
        levels = {f"level_{number}": level for number, level in enumerate(self._tree.levels)}
        return levels | {"is_drawn": self._windows.is_valid, "highest": self._highest} | self._uniform.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor], ring: "Ring") -> None:
        """Take over a `state_dict` of the same sizes. The ring has its steps already: all windows have weights."""
        self._tree.load([state[f"level_{number}"] for number in range(len(self._tree.levels))])
        self._windows.load(ring, state["is_drawn"])
        self._highest.copy_(state["highest"])
        self._uniform.load_state_dict(state, ring)


def draws_by(
    sampler: Selector, generator: torch.Generator, total: int, device: torch.device
) -> HostUniformDraws | PrioritizedDraws:
    """The draws of a ring of `total` rows on a device.

    Raises:
        UsageError: if the sampler is neither `Uniform` nor `Prioritized`.
    """
    if isinstance(sampler, Prioritized):
        return PrioritizedDraws(generator, total, device, sampler.exponent)
    if not isinstance(sampler, Uniform):
        raise UsageError(f"a ring is sampled uniformly or by priorities, not by {type(sampler).__name__}")
    return HostUniformDraws(generator) if device.type == "cpu" else UniformDraws(generator, total, device)
