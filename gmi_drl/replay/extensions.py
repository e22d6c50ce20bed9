"""What is done within each operation of a table, under its lock (Reverb, section 3.5)."""

import time
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.items import STRETCHES, first_steps, priorities_of

if TYPE_CHECKING:
    from gmi_drl.replay.contents import Contents


class Extension:
    """Is told of everything that happens to a table, in batches of slots, int64 `[n]`. It must be fast."""

    def attach(self, contents: "Contents") -> None:
        """Belong to a table, which has no items yet, by its contents."""
        self.contents = contents

    def inserted(self, slots: Tensor) -> None:
        """Items are new."""

    def sampled(self, slots: Tensor) -> None:
        """Items were sampled; one may be there twice."""

    def updated(self, slots: Tensor) -> None:
        """Items have other priorities; one may be there twice."""

    def deleted(self, slots: Tensor) -> None:
        """Items are about to go."""

    def reset(self) -> None:
        """All items are gone, and all counts are 0."""

    def info(self) -> dict[str, Any]:
        """Numbers and texts for the table's `info`."""
        return {}


class Statistics(Extension):
    """Rates, bytes and ages: what `info` shows of the time since it was last asked."""

    def attach(self, contents: "Contents") -> None:
        """Belong to a table."""
        super().attach(contents)
        self._inserted_at = torch.zeros(contents.items.capacity, dtype=torch.int64)
        self.reset()

    def inserted(self, slots: Tensor) -> None:
        """Note when, in inserts."""
        self._inserted_at[slots] = self._inserts + torch.arange(len(slots))
        self._inserts += len(slots)

    def sampled(self, slots: Tensor) -> None:
        """Sum up their ages."""
        self._samples += len(slots)
        self._ages += self._inserts * len(slots) - int(self._inserted_at[slots].sum())

    def updated(self, slots: Tensor) -> None:
        """Count them."""
        self._updates += len(slots)

    def deleted(self, slots: Tensor) -> None:
        """Count them."""
        self._deletes += len(slots)

    def reset(self) -> None:
        """Begin anew."""
        self._inserts = 0
        self._begin()

    def info(self) -> dict[str, float]:
        """Inserts, samples, updates, deletes and bytes sampled, each per second; mean age of samples in inserts."""
        passed_s = max(time.monotonic() - self._since, 1e-9)
        step_bytes = self.contents.storage.signature.step_bytes
        told = {
            "inserts_per_s": (self._inserts - self._inserts_before) / passed_s,
            "samples_per_s": self._samples / passed_s,
            "updates_per_s": self._updates / passed_s,
            "deletes_per_s": self._deletes / passed_s,
            "least_bytes_per_s": self._samples * step_bytes / passed_s,
            "age_in_inserts": self._ages / self._samples if self._samples else 0.0,
        }
        self._begin()
        return told

    def _begin(self) -> None:
        self._since, self._inserts_before = time.monotonic(), self._inserts
        self._samples = self._updates = self._deletes = self._ages = 0


class Diffusion(Extension):
    """Raises the priorities of an updated item's neighbours: the items that begin a few steps before or after it.

    At a distance of d steps to at least decay ** d of the priority (Gruslys et al. 2017). Neighbours lie in one block.

    Args:
        reach: The largest distance, in steps.
        decay: From 0 to 1.

    Raises:
        UsageError: if a number is out of range.
    """

    def __init__(self, reach: int, decay: float) -> None:
        if reach < 1 or not 0 < decay <= 1:
            raise UsageError(f"priorities reach 1 step at least, by a decay above 0 up to 1, not {reach} and {decay}")
        self._reach, self._decay = reach, decay

    def attach(self, contents: "Contents") -> None:
        """Belong to a table."""
        super().attach(contents)
        self._slots = torch.full((contents.storage.steps,), -1)  # of the item that begins at each step

    def inserted(self, slots: Tensor) -> None:
        """Note where they begin."""
        self._slots[self._first(slots)] = slots

    def deleted(self, slots: Tensor) -> None:
        """Forget them."""
        first = self._first(slots)
        self._slots[first[self._slots[first] == slots]] = -1

    def reset(self) -> None:
        """Forget all."""
        self._slots.fill_(-1)

    def updated(self, slots: Tensor) -> None:
        """Raise the priorities of their neighbours."""
        first, priorities = self._first(slots), priorities_of(self.contents.items.records[slots])
        blocks = self.contents.storage.blocks
        for distance in range(1, self._reach + 1):
            for places in (first - distance, first + distance):
                inside = places.clamp(0, self.contents.storage.steps - 1)
                neighbours = self._slots[inside]
                are_there = (neighbours >= 0) & (blocks.block_of(places) == blocks.block_of(first))
                self._raise(neighbours[are_there], priorities[are_there] * self._decay**distance)

    def _raise(self, slots: Tensor, least: Tensor) -> None:
        if len(slots):
            unique, inverse = torch.unique(slots, return_inverse=True)
            now = priorities_of(self.contents.items.records[unique])
            self.contents.set_priorities(unique, now.scatter_reduce(0, inverse, least, "amax"))

    def _first(self, slots: Tensor) -> Tensor:
        return first_steps(self.contents.items.records[slots, STRETCHES])
