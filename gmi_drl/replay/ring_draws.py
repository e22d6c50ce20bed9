"""Which windows of a ring are drawn: each with the same probability, or by priorities."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.selectors import Prioritized, Selector, Uniform
from gmi_drl.replay.selectors.base import check_priorities
from gmi_drl.replay.selectors.host_sum_tree import HostSumTree
from gmi_drl.replay.selectors.prioritized import most_priority, weights_of
from gmi_drl.replay.selectors.sum_tree import SumTree
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


class Draws:
    """Draws windows of a ring. What is here goes for those that are all as likely.

    Args:
        generator: Of the ring's device.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def draw(self, ring: "Ring", count: int) -> Draw:
        """Draw with replacement."""
        raise NotImplementedError

    def renew(self, ring: "Ring") -> None:
        """A step was added."""

    def begin(self, ring: "Ring") -> None:
        """The ring has other steps."""

    def mass(self, ring: "Ring") -> Tensor:
        """The sum of what windows are drawn by, float64 `[]`: their number."""
        return torch.full((), float(ring.windows), dtype=torch.float64, device=ring.device)

    def updated(self, ring: "Ring", keys: Tensor, priorities: Tensor) -> None:
        """Note other priorities of windows that are still there."""

    def state_dict(self) -> dict[str, Tensor]:
        """What later draws depend on: the generator."""
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor], ring: "Ring") -> None:
        """Take over a `state_dict` of the same sizes. The ring has its steps already."""
        self.generator.set_state(state["generator"])
        self.begin(ring)


class HostUniformDraws(Draws):
    """Draws on a CPU: from all complete windows, and again what is not valid, which is exact."""

    def draw(self, ring: "Ring", count: int) -> Draw:
        """See `Draws`. Probabilities are those of all complete windows, valid or not.

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

    def _keys(self, ring: "Ring", count: int) -> Tensor:
        first, end = ring.first * ring.num_env, ring.end * ring.num_env
        return torch.randint(first, end, (count,), generator=self.generator)


class UniformDraws(Draws):
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
        """See `Draws`."""
        self._windows.forget()

    def draw(self, ring: "Ring", count: int) -> Draw:
        """See `Draws`. If no window is valid, it raises nothing, and rewards are NaN."""
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


class ByPriority(Draws):
    """Draws windows by priority ** C. A window has weight as soon as it is complete, if it is valid.

    Args:
        generator: Of the device.
        tree: Of the weights, one for each row of the ring.
        windows: The valid ones.
        exponent: C.
    """

    def __init__(self, generator: torch.Generator, tree: SumTree, windows: ValidWindows, exponent: float) -> None:
        super().__init__(generator)
        self._tree, self._windows, self._exponent = tree, windows, exponent
        self._most = most_priority(exponent)
        self._highest = torch.ones(1, dtype=torch.float64, device=windows.is_valid.device)

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

    def state_dict(self) -> dict[str, Tensor]:
        """Weights, the highest priority, the generator."""
        levels = {f"level_{number}": level for number, level in enumerate(self._tree.levels)}
        return levels | {"is_drawn": self._windows.is_valid, "highest": self._highest} | super().state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor], ring: "Ring") -> None:
        """See `Draws`: all windows have weights."""
        self.generator.set_state(state["generator"])
        self._tree.load([state[f"level_{number}"] for number in range(len(self._tree.levels))])
        self._windows.load(ring, state["is_drawn"])
        self._highest.copy_(state["highest"])


class HostPrioritizedDraws(ByPriority):
    """On a CPU. See `ByPriority` for what is given."""

    _tree: HostSumTree

    def __init__(self, generator: torch.Generator, total: int, device: torch.device, exponent: float) -> None:
        super().__init__(generator, HostSumTree(total), ValidWindows(total, device), exponent)

    def draw(self, ring: "Ring", count: int) -> Draw:
        """See `Draws`; as `HostUniformDraws` if all weights are 0."""
        tree = self._tree
        if not tree.sum:
            return HostUniformDraws(self.generator).draw(ring, count)
        rows = tree.draw(count, self.generator)
        probabilities = torch.from_numpy(tree.weights.take(rows.numpy()) / tree.sum)
        return Draw(keys_of(ring, rows), rows, probabilities, ring.windows_at(rows))

    def updated(self, ring: "Ring", keys: Tensor, priorities: Tensor) -> None:
        """See `Draws`.

        Raises:
            UsageError: if one is negative, no finite number, or so high that its weight is none.
        """
        places, wanted = keys.numpy(), priorities.to(torch.float64).numpy()
        highest = check_priorities(wanted, self._most)
        rows = places % ring.total
        is_there = (places >= ring.first * ring.num_env) & (places < ring.end * ring.num_env)
        is_there &= self._windows.is_valid.numpy()[rows]
        if not is_there.all():
            rows, wanted = rows[is_there], wanted[is_there]
            highest = float(wanted.max(initial=0.0))
        self._tree.set(torch.from_numpy(rows), weights_of(torch.from_numpy(wanted), self._exponent))
        self._highest.clamp_(min=highest)


class PrioritizedDraws(ByPriority):
    """On any device. Nothing waits for a GPU. See `ByPriority` for what is given."""

    def __init__(self, generator: torch.Generator, total: int, device: torch.device, exponent: float) -> None:
        super().__init__(generator, SumTree(total, device), ValidWindows(total, device), exponent)
        self._least, self._limit = torch.tensor([[0.0], [self._most]], dtype=torch.float64, device=device)

    def draw(self, ring: "Ring", count: int) -> Draw:
        """See `Draws`; as `UniformDraws` if all weights are 0."""
        tree, total = self._tree, self._tree.total
        points = torch.rand(count, dtype=torch.float64, generator=self.generator, device=ring.device)
        rows = torch.where(total > 0, tree.find(points * total), self._windows.find(points))
        by_weight = tree.leaves.index_select(0, rows).div_(total)
        probabilities = torch.where(total > 0, by_weight, _even(ring, count))
        return Draw(keys_of(ring, rows), rows, probabilities, self._windows.at(ring, rows))

    def updated(self, ring: "Ring", keys: Tensor, priorities: Tensor) -> None:
        """See `Draws`. Negative priorities become 0, too high ones the limit: an error would wait for a GPU."""
        rows, first, last = keys % ring.total, ring.first * ring.num_env, ring.end * ring.num_env - 1
        is_there = (keys == keys.clamp(first, last)) & self._windows.is_valid[rows]  # none is valid if first > last
        priorities = torch.clamp(priorities, self._least, is_there * self._limit)  # float64; 0 of windows that are gone
        weights = weights_of(priorities, self._exponent)
        self._tree.set(rows, torch.where(is_there, weights, self._tree.leaves[rows]))
        torch.maximum(self._highest, priorities.max(), out=self._highest)


def draws_by(sampler: Selector, generator: torch.Generator, total: int, device: torch.device) -> Draws:
    """The draws of a ring of `total` rows on a device.

    Raises:
        UsageError: if the sampler is neither `Uniform` nor `Prioritized`.
    """
    on_host = device.type == "cpu"
    if isinstance(sampler, Prioritized):
        of_device = HostPrioritizedDraws if on_host else PrioritizedDraws
        return of_device(generator, total, device, sampler.exponent)
    if not isinstance(sampler, Uniform):
        raise UsageError(f"a ring is sampled uniformly or by priorities, not by {type(sampler).__name__}")
    return HostUniformDraws(generator) if on_host else UniformDraws(generator, total, device)
