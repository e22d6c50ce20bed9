"""The items of a table, its selectors, limiter and extensions, which all follow each operation. `Table` locks them."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmi_drl.replay.extensions import Extension
from gmi_drl.replay.indices import Integers, Runs
from gmi_drl.replay.items import KEY, LENGTH_BITS, LONGEST, STRETCHES, TIMES, Items, first_steps, lengths
from gmi_drl.replay.limiters import RateLimiter
from gmi_drl.replay.selectors import Selector
from gmi_drl.replay.storage import Storage

AT_ONCE = 4096
"""Items that are there beyond `max_size` at most, before the remover evicts."""

FIRST_EVICTED = 2
"""Times the items of the fullest block: so many of those that the remover would evict next cost nothing."""

_NONE = torch.empty(0, dtype=torch.int64)


class Contents:
    """What a table has and counts. Only one thread at a time may use it.

    Args:
        storage: Where the steps are.
        sampler: Selects what is sampled.
        remover: Selects what is evicted.
        max_size: Items, after an insert.
        limiter: Counts.
        max_times_sampled: An item is deleted after so many samples; 0 means no limit.
        extensions: Are told of everything.
        seed: Of what the selectors draw.

    Attributes:
        items: Records.
        released: Blocks of items that have gone; the table releases them.
        stale: Items that are not drawn because of their version.
        longest: Steps of the longest item so far.
        most_priority: The highest priority that both selectors take.
    """

    def __init__(
        self,
        storage: Storage,
        sampler: Selector,
        remover: Selector,
        max_size: int,
        limiter: RateLimiter,
        max_times_sampled: int,
        extensions: Sequence[Extension],
        seed: int,
    ) -> None:
        self.storage, self.sampler, self.remover, self.limiter = storage, sampler, remover, limiter
        self.most_priority = min(sampler.most_priority, remover.most_priority)
        self.max_size, self.at_once = max_size, min(max_size, AT_ONCE)
        self.extensions, self.max_times_sampled = tuple(extensions), max(0, max_times_sampled)
        self.items = Items(max_size + self.at_once, len(storage.signature.columns))
        self.generator = torch.Generator().manual_seed(seed)
        self.released: list[Runs] = []
        self.stale = self._sampled_and_gone = 0
        self.longest = 1
        self._samples_left = 0  # of all items that may be drawn, where their samples are limited
        self._newest_stale = -1
        self._is_stale = torch.zeros(self.items.capacity, dtype=torch.bool)
        for selector in (sampler, remover):
            selector.open(self.items.capacity)
        for extension in self.extensions:
            extension.attach(self)

    @property
    def size(self) -> int:
        """Items that are there."""
        return self.limiter.counters.size

    @property
    def unique_samples(self) -> int:
        """Items that were sampled once at least, also of those that have gone. Looks at all."""
        records = self.items.records
        return self._sampled_and_gone + int(((records[:, KEY] > 0) & (records[:, TIMES] > 0)).sum())

    @property
    def evicts_for_room(self) -> bool:
        """Whether items are evicted because their storage is full. Not of a queue, whose inserts wait for samples.

        It is one if its limiter holds inserts back, and allows samples until every item has gone.
        """
        limiter = self.limiter
        takes_all = limiter.min_diff <= 0 and 0 < self.max_times_sampled <= limiter.spi
        return not (takes_all and limiter.max_diff < float("inf"))

    def insert(self, stretches: Tensor, priorities: Tensor, version: int) -> Tensor:
        """Add items `[n]`, `at_once` at most, then evict. Returns their keys. If an extension raises, none is in."""
        slots, keys = self.items.insert(stretches, priorities, version)
        if self.storage.longest > 1:
            self.longest = max(self.longest, int((stretches.numpy() & LONGEST).max()))
        self.limiter.counters.inserts += slots.numel()
        self.remover.inserted(slots, priorities)
        if version > self._newest_stale:
            self.sampler.inserted(slots, priorities)
            self._samples_left += self.max_times_sampled * len(slots)
        else:
            self._is_stale[slots] = True
            self.stale += len(slots)
        told = list[Extension]()
        try:
            for extension in self.extensions:
                extension.inserted(slots)
                told.append(extension)
            if (excess := self.size - self.max_size) > 0:
                self.evict(excess)
        except BaseException:
            self._undo_insert(slots[self.items.records[slots, KEY] == keys], told)
            raise
        return keys

    def can_sample(self, count: int) -> bool:
        """Whether `count` items may be sampled now."""
        return self.samples_allowed(count) == count

    def samples_allowed(self, count: int) -> int:
        """How many of `count` items may be sampled now."""
        if self.size == self.stale:
            return 0
        allowed = self.limiter.samples_allowed(count)
        return min(allowed, self._samples_left) if self.max_times_sampled else allowed

    def sample(self, count: int, *, distinct: bool) -> tuple[Tensor, Tensor]:
        """Select items, count them, and delete those that were sampled often enough.

        Returns:
            Their records `[n, 3 + columns]` with the counts of this sample, and probabilities `[n]`.

        Raises:
            UsageError: if fewer distinct items can be drawn; then nothing has changed.

        What an extension raises is raised when all is done: the items count as sampled.
        """
        is_limited = False
        if distinct or (self.max_times_sampled == 1 and self.sampler.evicts_in_batches):
            slots, probabilities = self.sampler.select_distinct(count, self.generator)
        elif is_limited := self.max_times_sampled > 0:
            slots, probabilities = self._select_limited(count)
        else:
            slots, probabilities = self.sampler.select(count, self.generator)
        records, done = self.items.sampled(slots), _NONE
        self.limiter.counters.samples += count
        if self.max_times_sampled:
            self._samples_left -= count
            done = torch.unique(slots[records[:, TIMES] >= self.max_times_sampled])
        try:
            if self.extensions:
                self._tell_sampled(slots, done)
        finally:  # else the sampler and the counts would differ from the items
            if len(done):
                self._delete(done, in_sampler=not is_limited)
        return records, probabilities

    def _tell_sampled(self, slots: Tensor, done: Tensor) -> None:
        """Tell all extensions of samples, then of items that go by them. If one raises, the others are told, too."""
        with ExitStack() as calls:  # the last one first
            if len(done):
                for extension in reversed(self.extensions):
                    calls.callback(extension.deleted, done)
            for extension in reversed(self.extensions):
                calls.callback(extension.sampled, slots)

    def set_priorities(self, slots: Tensor, priorities: Tensor) -> None:
        """Give items other priorities; of a slot that is there twice the last one counts."""
        self.items.set_priorities(slots, priorities)
        self.remover.updated(slots, priorities)
        if self.stale:
            is_drawn = ~self._is_stale[slots]
            slots, priorities = slots[is_drawn], priorities[is_drawn]
        self.sampler.updated(slots, priorities)

    def update(self, keys: Integers, priorities: NDArray[np.float64]) -> int:
        """Give items by their keys other priorities. Returns how many keys are items."""
        found = self.items.slots_of(keys)
        if np.count_nonzero(found < 0):
            priorities, found = priorities[found >= 0], found[found >= 0]
        if found.size:
            slots = torch.from_numpy(found)
            self.set_priorities(slots, torch.from_numpy(priorities))
            for extension in self.extensions:
                extension.updated(slots)
        return int(found.size)

    def evict(self, count: int) -> None:
        """Delete what the remover selects."""
        if self.remover.evicts_in_batches:
            self.delete(self.remover.select_distinct(count, self.generator)[0])
            return
        for _ in range(count):
            self.delete(self.remover.select(1, self.generator)[0])

    def references(self) -> tuple[Tensor, Tensor]:
        """What `Evicting.references` returns. Looks at all items."""
        slots = (self.items.records[:, KEY] > 0).nonzero().flatten()
        found = self._references_of(slots)
        if not self.remover.evicts_in_batches or not self.size:
            return found, found
        count = min(self.size, FIRST_EVICTED * int(found.max()))
        return found, found - self._references_of(self.remover.select_distinct(count, self.generator)[0])

    def evict_from(self, blocks: Tensor) -> None:
        """Evict all items that have steps in these blocks. Looks at all items."""
        slots = (self.items.records[:, KEY] > 0).nonzero().flatten()
        is_there = torch.isin(self._blocks_of(slots), blocks).any(1)
        if bool(is_there.any()):
            self.delete(slots[is_there])

    def _blocks_of(self, slots: Tensor) -> Tensor:
        """The blocks of items, `[n, columns]`."""
        return self.storage.blocks.block_of(first_steps(self.items.records[slots, STRETCHES:]))

    def _references_of(self, slots: Tensor) -> Tensor:
        return torch.bincount(self._blocks_of(slots).flatten(), minlength=self.storage.blocks.count)

    def delete(self, slots: Tensor) -> None:
        """Delete items, none twice."""
        for extension in self.extensions:
            extension.deleted(slots)
        self._delete(slots, in_sampler=True)

    def _undo_insert(self, slots: Tensor, told: Sequence[Extension]) -> None:
        """Delete new items as if they had not been there; `told` are the extensions that know of them."""
        if not len(slots):
            return
        for extension in told:
            with suppress(Exception):  # it may be the one that raised, and is told to the caller
                extension.deleted(slots)
        self._delete(slots, in_sampler=True)
        self.limiter.counters.inserts -= len(slots)
        self.limiter.counters.deletes -= len(slots)

    def _delete(self, slots: Tensor, in_sampler: bool) -> None:
        """Delete items; those that the sampler has deleted already with `in_sampler=False`."""
        records = self.items.read(slots)
        told = records.numpy()
        first = (told[:, STRETCHES:] >> LENGTH_BITS).reshape(-1)
        self.released.append(self.storage.blocks.needed_for(torch.from_numpy(first)))
        self.limiter.counters.deletes += len(slots)
        self._sampled_and_gone += int(np.count_nonzero(told[:, TIMES]))
        self.items.delete(slots)
        self.remover.deleted(slots)
        if self.stale:
            is_stale = self._is_stale[slots]
            self._is_stale[slots] = False
            self.stale -= int(is_stale.sum())
            slots, records = slots[~is_stale], records[~is_stale]
        if in_sampler:
            self.sampler.deleted(slots)
        if self.max_times_sampled:
            self._samples_left -= int((self.max_times_sampled - records[:, TIMES]).sum())

    def withdraw(self, version: int) -> None:
        """From now on draw no item of this version or an older one."""
        if version <= self._newest_stale:
            return
        self._newest_stale = version
        is_old = (self.items.records[:, KEY] > 0) & (self.items.versions <= version) & ~self._is_stale
        slots = is_old.nonzero().flatten()
        self._is_stale[slots] = True
        self.stale += len(slots)
        self.sampler.deleted(slots)
        if self.max_times_sampled:
            self._samples_left -= int((self.max_times_sampled - self.items.records[slots, TIMES]).sum())

    def delete_all(self) -> None:
        """Delete all items."""
        slots = (self.items.records[:, KEY] > 0).nonzero().flatten()
        if len(slots):
            self.delete(slots)

    def reset(self) -> None:
        """Delete all items, and set all counts to 0."""
        self.delete_all()
        self.limiter.reset()
        self._sampled_and_gone, self.longest = 0, 1
        for extension in self.extensions:
            extension.reset()

    def state_dict(self) -> dict[str, Any]:
        """Everything but data, extensions and released blocks, copied. Nested dicts of tensors and numbers."""
        return {
            "items": self.items.state_dict(),
            "sampler": self.sampler.state_dict(),
            "remover": self.remover.state_dict(),
            "limiter": self.limiter.state_dict(),
            "generator": self.generator.get_state(),
            "is_stale": self._is_stale.clone(),
            "counts": {
                "sampled_and_gone": self._sampled_and_gone,
                "samples_left": self._samples_left,
                "newest_stale": self._newest_stale,
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a `state_dict` of the same sizes and classes. Extensions begin with all items as new."""
        self.items.load_state_dict(state["items"])
        self.longest = max(1, int(lengths(self.items.records[:, STRETCHES:]).max()))
        self.sampler.load_state_dict(state["sampler"])
        self.remover.load_state_dict(state["remover"])
        self.limiter.load_state_dict(state["limiter"])
        self.generator.set_state(state["generator"])
        self._is_stale.copy_(state["is_stale"])
        self.stale = int(self._is_stale.sum())
        counts = state["counts"]
        self._sampled_and_gone, self._samples_left = counts["sampled_and_gone"], counts["samples_left"]
        self._newest_stale = counts["newest_stale"]
        slots = (self.items.records[:, KEY] > 0).nonzero().flatten()
        for extension in self.extensions:
            extension.reset()
            extension.inserted(slots)

    def _select_limited(self, count: int) -> tuple[Tensor, Tensor]:
        """Select one after the other. The sampler deletes items that were sampled often enough: later draws lack them.

        What is drawn once too often is drawn anew, which is exact where draws do not depend on each other.
        """
        chosen: list[int] = []
        probabilities: list[float] = []
        left: dict[int, int] = {}
        while len(chosen) < count:
            slots, chances = self.sampler.select(count - len(chosen), self.generator)
            new = [slot for slot in set(slots.tolist()) if slot not in left]
            times = self.items.records[torch.tensor(new, dtype=torch.int64), TIMES].tolist()
            left |= {slot: self.max_times_sampled - done for slot, done in zip(new, times, strict=True)}
            ended: list[int] = []
            for slot, chance in zip(slots.tolist(), chances.tolist(), strict=True):
                if left[slot]:
                    left[slot] -= 1
                    chosen.append(slot)
                    probabilities.append(chance)
                    ended += [slot] if not left[slot] else []
            if ended:
                self.sampler.deleted(torch.tensor(ended))
        return torch.tensor(chosen), torch.tensor(probabilities, dtype=torch.float64)
