"""The shard of one rank: a table whose items are trajectories, each in a block of its own (GEAR 3.2).

The number of the block is the trajectory's index in the shard. The blocks allocate indices, the table's records are
the status of the trajectories, the storage's columns their data.
"""

import time
from contextlib import AbstractContextManager
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers
from gmi_drl.replay.items import KEY, STRETCHES, first_steps, lengths, priorities_of
from gmi_drl.replay.limiters import MinSize, ReplayTimeoutError
from gmi_drl.replay.selectors import Selector
from gmi_drl.replay.shards.chances import Chances
from gmi_drl.replay.storage import Storage
from gmi_drl.replay.table import Table

EVICT = -1.0
"""As a priority in an update: delete the trajectory."""

_STAMP_BITS = 32
_LOOK_S = 0.02


class Shard:
    """Trajectories of one rank. All methods may be called by several threads.

    Args:
        name: For messages.
        storage: Of the rows, with a block of so many steps for each trajectory.
        trajectories: Room for so many.
        steps: Of the longest trajectory.
        remover: Selects what is evicted.
        seed: Of what the remover draws.

    Attributes:
        lengths: Steps of each trajectory that can be read, int64 `[trajectories]`; 0 of others.
        keys: Of the items in the table, int64 `[trajectories]`; 0 of what is not selectable.
        stamps: When each was committed, int64 `[trajectories]`: the meeting, then the order in this shard.
        meeting: The number of calls that all ranks have made so far: what is committed from now on is newer.
        committed: Trajectories so far.
    """

    is_padded: ClassVar[bool] = True
    """Whether each trajectory has room for the longest one, with zeros behind its end."""

    def __init__(
        self, name: str, storage: Storage, trajectories: int, steps: int, remover: Selector, seed: int
    ) -> None:
        self.trajectories, self.steps, self.storage = trajectories, steps, storage
        self.stamps, self.keys, self.lengths, self._holds = torch.zeros(4, trajectories, dtype=torch.int64)
        self._held = self._holds.numpy()  # the same memory: to ask for it takes as long as to use it
        self._evicted = 0  # trajectories that are held; each has a reference to its block
        self.chances = Chances(self.stamps, self.trajectory_at)
        self.table = Table(
            name,
            storage.signature,
            sampler=self.chances,
            remover=remover,
            max_size=trajectories,
            limiter=MinSize(1),
            storage=storage,
            seed=seed,
        )
        self.chances.items = self.table.contents.items
        storage.blocks.tables.clear()  # this shard evicts by itself: strictly by its remover
        self.meeting = self.committed = 0

    @property
    def lock(self) -> AbstractContextManager[bool]:
        """Guards everything but rows."""
        return self.table.lock

    def first_of(self, indices: Integers) -> Integers:
        """The places of the first steps of trajectories `[n]` in the storage."""
        return indices * self.steps

    def trajectory_at(self, first: Tensor) -> Tensor:
        """The trajectories whose first steps have these places."""
        return first.div(self.steps, rounding_mode="floor")

    def blocks_of(self, indices: Tensor) -> Tensor:
        """The blocks of trajectories."""
        return indices

    def lease(self, count: int, timeout_s: float) -> list[int]:
        """Take indices to write to. Evicts what nobody holds, if there are too few, else waits.

        Raises:
            UsageError: if there are not as many at all.
            ReplayTimeoutError: if they do not become free in time.
        """
        if not 1 <= count <= self.trajectories:
            raise UsageError(f"1 to {self.trajectories} trajectories can be allocated at once, not {count}")
        deadline = time.monotonic() + timeout_s
        while True:
            self._make_room(count)
            try:
                return self.storage.blocks.lease(count, 0, min(_LOOK_S, max(0.0, deadline - time.monotonic())))
            except ReplayTimeoutError:
                if time.monotonic() >= deadline:
                    with self.lock:
                        held, there = int((self._holds > 0).sum()), self.table.size
                    text = f"{self.table.name}: no room for {count} trajectories after {timeout_s:g} s: of"
                    text += f" {self.trajectories} {there} are there, {held} of all wait to be collected"
                    raise ReplayTimeoutError(f"{text}: collect or drop lists, commit or abandon buffers") from None

    def end_lease(self, blocks: list[int]) -> None:
        """Nobody writes to these any more; those that were not committed are free."""
        self.storage.blocks.end_lease(blocks)

    def commit(
        self, blocks: list[int], steps: Tensor, priorities: Tensor, version: int, stamps: Tensor | None = None
    ) -> None:
        """Make leased trajectories selectable, the first one as the oldest. Steps past their ends become zeros."""
        at = torch.tensor(blocks, dtype=torch.int64)
        for block, length in zip(blocks, steps.tolist(), strict=True):
            if length < self.steps:
                for rows in self.storage.rows.words.values():
                    rows[block * self.steps + length : (block + 1) * self.steps] = 0
        with self.lock:
            if stamps is None:
                order = torch.arange(self.committed, self.committed + len(blocks))
                stamps = stamp_of(self.meeting, order)
                self.committed += len(blocks)
            self.stamps[at] = stamps
            self.keys[at] = self.table.insert(at * self.steps, steps, priorities, version=version)
            self.lengths[at] = steps
        self.end_lease(blocks)

    def update(self, indices: Tensor, as_of: Tensor, priorities: Tensor) -> int:
        """Give trajectories other priorities, or evict them (`EVICT`).

        Args:
            indices: Of trajectories, int64 `[n]`.
            as_of: The meetings before which they were committed, int64 `[n]`: newer ones are others.
            priorities: `[n]`.

        Returns:
            How many are gone.
        """
        with self.lock:
            is_there = (self.keys[indices] > 0) & (self.stamps[indices] >> _STAMP_BITS < as_of)
            is_kept = is_there & (priorities >= 0)
            self.table.update(self.keys[indices[is_kept]], priorities[is_kept])
            self._delete(torch.unique(indices[is_there & (priorities < 0)]))
        return int((~is_there).sum())

    def hold(self, indices: Tensor) -> None:
        """Keep these from being written over until `release`. They are there, or held already."""
        with self.lock:
            np.add.at(self._held, indices.numpy(), 1)

    def release(self, indices: Tensor) -> None:
        """End a `hold` of the same."""
        with self.lock:
            at, holds = indices.numpy(), self._held
            np.subtract.at(holds, at, 1)
            if self._evicted:
                self._free(np.unique(at[(holds[at] == 0) & (self.keys.numpy()[at] == 0)]))

    def take_over(self, stamps: Tensor, committed: int) -> None:
        """The table was restored: take over what is not in it."""
        with self.lock:
            records = self.table.contents.items.records
            records = records[records[:, KEY] > 0]
            at = self.trajectory_at(first_steps(records[:, STRETCHES]))
            self.stamps.copy_(stamps)
            self.keys[at], self.lengths[at] = records[:, KEY], lengths(records[:, STRETCHES])
            self.committed = committed

    def _make_room(self, count: int) -> None:
        """Evict until `count` indices are free or still read, in the order of the remover, what nobody holds."""
        with self.lock:
            missing = count - self.storage.blocks.free_when_read  # what was evicted may still be read
            size = self.table.size
            if missing <= 0 or not size:
                return
            if not self.table.contents.remover.evicts_in_batches:
                self._evict_singly(missing)
                return
            blocks = self._first_to_go(min(size, missing))
            if bool((self._holds[blocks] > 0).any()):
                held = int(((self._holds > 0) & (self.keys > 0)).sum())
                blocks = self._first_to_go(min(size, missing + held))
            self._delete(blocks[self._holds[blocks] == 0][:missing])

    def _evict_singly(self, count: int) -> None:
        """Evict `count`, or all that nobody holds, one after the other. The remover loses held ones for that time."""
        contents, passed = self.table.contents, list[Tensor]()
        try:
            while count and len(passed) < self.table.size:
                slot = contents.remover.select(1, contents.generator)[0]
                index = self.chances.trajectories_of(slot)
                if bool(self._holds[index] > 0):
                    contents.remover.deleted(slot)
                    passed.append(slot)
                else:
                    self._delete(index)
                    count -= 1
        finally:
            if passed:
                slots = torch.cat(passed)
                contents.remover.inserted(slots, priorities_of(contents.items.records[slots]))

    def _first_to_go(self, count: int) -> Tensor:
        """The places of those that the remover would evict, in order."""
        contents = self.table.contents
        return self.chances.trajectories_of(contents.remover.select_distinct(count, contents.generator)[0])

    def _delete(self, indices: Tensor) -> None:
        if not len(indices):
            return
        keys, is_held = self.keys[indices], self._holds[indices] > 0
        held = indices[is_held]
        self.storage.blocks.hold(self.blocks_of(held))
        self._evicted += len(held)
        self.keys[indices] = 0
        self.lengths[indices[~is_held]] = 0
        self.table.delete(keys)

    def _free(self, indices: Integers) -> None:
        """Free what was evicted while it was held."""
        evicted = torch.from_numpy(indices[self.lengths.numpy()[indices] > 0])
        self._evicted -= len(evicted)
        self.lengths[evicted] = 0
        self.storage.blocks.release(self.blocks_of(evicted))


def stamp_of(meeting: int, order: Tensor) -> Tensor:
    """When trajectories were committed: after which meeting, and in which order `[n]` since."""
    return (meeting << _STAMP_BITS) | order
