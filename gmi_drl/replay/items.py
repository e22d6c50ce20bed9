"""The items of a table: one row of numbers for each, so that one gather tells all of it."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from gmi_drl.replay.indices import Integers, index_of_slots, zeros

KEY, TIMES, PRIORITY, STRETCHES = 0, 1, 2, 3
"""Columns of a record: key, times sampled, bits of the priority, then the stretch of each column of the storage."""

LENGTH_BITS = 24
"""Of the word of a stretch; the rest is its first step."""

LONGEST = (1 << LENGTH_BITS) - 1
_SLOT_BITS = 32
_SLOTS = (1 << _SLOT_BITS) - 1
_ONE_USE = 1 << _SLOT_BITS


class Items:
    """Records of items in slots. A key has 64 bits: the slot in the low 32, above them how often it was used so far.

    So a key is found without a search, and none is ever used again.

    Args:
        capacity: Slots.
        columns: Columns of the storage.

    Attributes:
        records: int64 `[capacity, 3 + columns]`; where there is no item, the key is minus the last one of the slot.
        versions: Of the policy that acted, int64 `[capacity]`.
    """

    def __init__(self, capacity: int, columns: int) -> None:
        self.capacity = capacity
        self.records = zeros(capacity, STRETCHES + columns)
        self.records[:, KEY] = -torch.arange(capacity)
        self.versions = zeros(capacity)
        self._free = torch.arange(capacity)  # a ring
        self._rows = self.records.numpy()  # the same memory, as those that follow
        self._keys, self._times = self._rows[:, KEY], self._rows[:, TIMES]
        self._version, self._ring = self.versions.numpy(), self._free.numpy()
        self._next, self.free = 0, capacity

    def insert(self, stretches: Tensor, priorities: Tensor, version: int) -> tuple[Tensor, Tensor]:
        """Add items with stretches `[n, columns]` and priorities `[n]`. There must be as many slots.

        Returns:
            Their slots and keys.
        """
        count = len(stretches)
        slots = self._free_slots(count)
        self._next, self.free = (self._next + count) % self.capacity, self.free - count
        index = index_of_slots(slots)
        keys = _ONE_USE - self._keys[index]
        new = self._rows[index] if isinstance(index, slice) else np.empty((count, self._rows.shape[1]), dtype=np.int64)
        new[:, KEY] = keys
        new[:, TIMES] = 0
        new[:, PRIORITY] = priorities.numpy().view(np.int64)
        new[:, STRETCHES:] = stretches.numpy()
        if not isinstance(index, slice):
            self.records.index_copy_(0, slots, torch.from_numpy(new))
        self._version[index] = version
        return slots, torch.from_numpy(keys)

    def delete(self, slots: Tensor) -> None:
        """Remove items, none twice."""
        index = index_of_slots(slots)
        self._keys[index] = -self._keys[index]
        first, count, gone = (self._next + self.free) % self.capacity, len(slots), slots.numpy()
        to_end = min(count, self.capacity - first)
        self._ring[first : first + to_end] = gone[:to_end]
        if to_end < count:
            self._ring[: count - to_end] = gone[to_end:]
        self.free += count

    def find(self, keys: Tensor) -> Tensor:
        """The slots of keys, -1 where there is no such item (any more)."""
        return torch.from_numpy(self.slots_of(keys.to(torch.int64).numpy()))

    def slots_of(self, wanted: Integers) -> Integers:
        """As `find`, of an array."""
        slots = wanted & _SLOTS
        if len(slots) and wanted.min() > 0 and slots.max() < self.capacity and (self._keys[slots] == wanted).all():
            return slots
        found = self._rows.take(slots, 0, mode="clip")[:, KEY]  # a key has its slot in it
        return np.where((found == wanted) & (wanted > 0), slots, -1)

    def set_priorities(self, slots: Tensor, priorities: Tensor) -> None:
        """Note other priorities; of a slot that is there twice the last one."""
        self._rows[slots.numpy(), PRIORITY] = priorities.numpy().view(np.int64)

    def sampled(self, slots: Tensor) -> Tensor:
        """Count a sample of each, of a slot that is there twice two. Returns their records `[n, 3 + columns]`."""
        places = slots.numpy()
        np.add.at(self._times, places, 1)
        return torch.from_numpy(self._rows.take(places, 0))

    def read(self, slots: Tensor) -> Tensor:
        """Their records `[n, 3 + columns]`, to be read before other items are there."""
        index = index_of_slots(slots)
        return torch.from_numpy(self._rows[index] if isinstance(index, slice) else self._rows.take(index, 0))

    def state_dict(self) -> dict[str, Tensor]:
        """Everything, copied; key 0 where there is no item, and of all slots how often they were used."""
        records = self.records.clone()
        uses = records[:, KEY].abs() >> _SLOT_BITS
        records[:, KEY].clamp_(min=0)
        return {
            "records": records,
            "versions": self.versions.clone(),
            "uses": uses,
            "free": self._free_slots(self.free),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a `state_dict` of the same sizes."""
        self.records.copy_(state["records"])
        self.versions.copy_(state["versions"])
        last_keys = state["uses"] << _SLOT_BITS | torch.arange(self.capacity)
        self.records[:, KEY] = torch.where(state["records"][:, KEY] > 0, last_keys, -last_keys)
        self._next, self.free = 0, len(state["free"])
        self._free[: self.free] = state["free"]

    def _free_slots(self, count: int) -> Tensor:
        """The first free slots, copied."""
        end = self._next + count
        if end <= self.capacity:
            return torch.from_numpy(self._ring[self._next : end].copy())
        return torch.cat((self._free[self._next :], self._free[: end - self.capacity]))


def stretches_of(first: Integers, length: int | Integers) -> Integers:
    """The words of stretches."""
    return first << LENGTH_BITS | length


def first_steps(stretches: Tensor) -> Tensor:
    """The first steps of stretches, in words."""
    return stretches >> LENGTH_BITS


def lengths(stretches: Tensor) -> Tensor:
    """The lengths of stretches, in words."""
    return stretches & LONGEST


def priorities_of(records: Tensor) -> Tensor:
    """The priorities in records, float64 `[n]`."""
    return records[:, PRIORITY].contiguous().view(torch.float64)
