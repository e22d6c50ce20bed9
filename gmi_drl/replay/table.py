"""A table of items of experience: what is sampled, what is evicted, and how fast (Reverb, sections 3.2 to 3.5)."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.batch import Batch, Selection, gather_items
from gmi_drl.replay.contents import AT_ONCE, Contents
from gmi_drl.replay.extensions import Extension
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.indices import Integers, Runs
from gmi_drl.replay.limiters import WAIT_S, RateLimiter, ReplayTimeoutError
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.selectors import Selector
from gmi_drl.replay.selectors.base import check_priorities
from gmi_drl.replay.storage import Storage, make_storage
from gmi_drl.replay.stretches import Stretches

Priorities = float | Tensor | NDArray[np.float64]
"""Of all items, or of each `[n]`."""


class Table:
    """Items with priorities that reference steps of a storage. All methods may be called by several threads.

    One lock guards what is chosen and counted; rows are copied without it.

    Args:
        name: For messages.
        signature: Of a step; that of the storage.
        sampler: Selects what is sampled.
        remover: Selects what is evicted; another object than the sampler.
        max_size: Items. After an insert beyond it the remover evicts one, perhaps the new one.
        limiter: When inserts and samples are allowed; of no other table.
        max_times_sampled: An item is deleted after so many samples; 0 means no limit.
        extensions: Run within each operation.
        storage: Where the steps are; several tables may share one. None makes one for items of one step each.
        seed: Of what the selectors draw.

    Attributes:
        contents: Items, selectors and counts; under the lock only.
        lock: Guards them.
        is_closed: Whether it takes and gives nothing any more.

    Raises:
        UsageError: if these do not go together, with the numbers.
    """

    def __init__(
        self,
        name: str,
        signature: Signature,
        *,
        sampler: Selector,
        remover: Selector,
        max_size: int,
        limiter: RateLimiter,
        max_times_sampled: int = 0,
        extensions: Sequence[Extension] = (),
        storage: Storage | None = None,
        seed: int = 0,
    ) -> None:
        if max_size < limiter.min_size:
            sizes = f"min_size {limiter.min_size} is above max_size {max_size}"
            raise UsageError(f"table {name}: {sizes}: no sample would ever be served")
        if sampler is remover:
            raise UsageError(f"table {name}: sampler and remover must be two objects")
        if storage is not None and (difference := signature.difference(storage.signature)):
            raise UsageError(f"table {name}: the storage has other steps: {difference}")
        self.name, self.signature, self.limiter = name, signature, limiter
        self.storage = storage or make_storage(signature, max_size + 2 * min(max_size, AT_ONCE))
        self.contents = Contents(self.storage, sampler, remover, max_size, limiter, max_times_sampled, extensions, seed)
        self.storage.tables += 1
        self.lock = threading.Condition()
        self._waiting = {"inserts": 0, "samples": 0}
        self.is_closed = False
        if self.contents.evicts_for_room:
            self.storage.blocks.tables.append(self)

    @property
    def size(self) -> int:
        """Items that are there."""
        return self.contents.size

    def insert(
        self,
        first: Tensor | Integers,
        length: int | Tensor | Integers,
        priority: Priorities,
        *,
        version: int = 0,
        timeout_s: float = WAIT_S,
    ) -> Tensor:
        """Add items, as many at a time as the limiter allows.

        Args:
            first: First steps, int64 `[n]`, or `[n, columns]` if columns have different stretches.
            length: Steps; of all, `[n]` or `[n, columns]`. Each stretch lies in one block.
            priority: Of all, or `[n]`; 0 or more.
            version: Of the policy that acted.
            timeout_s: Seconds to wait for the limiter, in all.

        Returns:
            Keys, int64 `[n]`. Those that the remover has evicted already are outdated.

        Raises:
            UsageError: if a stretch or a priority is wrong; then nothing has changed.
            ReplayTimeoutError: if the limiter did not allow all of them in time; `done` says how many it has.

        If an extension raises, none of the at most `contents.at_once` items that it was told of is in.
        """
        try:
            stretches = Stretches(self.storage, first, length)
        except UsageError as error:
            raise UsageError(f"table {self.name}: {error}") from None
        count = len(stretches)
        priorities = torch.from_numpy(checked_priorities(priority, count, self.contents.most_priority))
        deadline, keys, done = time.monotonic() + timeout_s, list[Tensor](), 0
        while done < count:
            with self.lock:
                self._await(lambda: self.limiter.can_insert(1), "inserts", count - done, deadline, done)
                end = done + min(self.limiter.inserts_allowed(count - done), self.contents.at_once)
                self.storage.blocks.hold_runs(stretches.needed_by(slice(done, end)))
                try:
                    keys.append(self.contents.insert(stretches.words[done:end], priorities[done:end], version))
                except BaseException:
                    self._release(self._leave())
                    raise
                released = self._leave()
            self._release(released)
            done = end
        return keys[0] if len(keys) == 1 else torch.cat([torch.empty(0, dtype=torch.int64), *keys])

    def sample(
        self,
        count: int,
        *,
        columns: tuple[str, ...] | None = None,
        distinct: bool = False,
        newer_than: int | None = None,
        timeout_s: float = WAIT_S,
        out: Batch | None = None,
    ) -> Batch:
        """Sample `count` items, when the limiter allows all of them.

        Args:
            count: B.
            columns: Of the storage; None for all.
            distinct: Whether no item may be there twice.
            newer_than: Items of this version and older ones are not drawn, from now on. It never falls.
            timeout_s: Seconds to wait for the limiter.
            out: A batch of an earlier call, whose rows are written over if they have the sizes and columns of this one.

        Raises:
            UsageError: if the limiter never allows as many at once, or fewer distinct items can be drawn.
            ReplayTimeoutError: if the limiter did not allow it in time, with what is missing.

        If an extension raises, the items count as sampled.
        """
        selection = self.select(count, distinct=distinct, newer_than=newer_than, timeout_s=timeout_s)
        try:
            rows = self.gather(selection.records, columns, out.rows if out else None)
        finally:
            self.storage.end_reading(selection.ticket)
        return Batch(rows, selection.records, selection.probabilities, selection.table_size)

    def select(
        self, count: int, *, distinct: bool = False, newer_than: int | None = None, timeout_s: float = WAIT_S
    ) -> Selection:
        """Do what `sample` does without copying rows.

        Nobody writes over them until the caller gives the ticket to `storage.end_reading`.
        """
        if not 1 <= count <= self.limiter.most_at_once:
            raise UsageError(f"table {self.name}: a sample has 1 to {self.limiter.most_at_once:g} items, not {count}")
        deadline = time.monotonic() + timeout_s
        with self.lock:
            if newer_than is not None:
                self.contents.withdraw(newer_than)
            self._await(lambda: self.contents.can_sample(count), "samples", count, deadline)
            size = self.size
            try:
                records, probabilities = self.contents.sample(count, distinct=distinct)
            except BaseException:
                self._release(self._leave())
                raise
            ticket = self.storage.blocks.begin_reading()
            released = self._leave()
        self._release(released)
        return Selection(records, probabilities, size, ticket)

    def update(self, keys: Tensor | Integers, priorities: Priorities) -> int:
        """Give items other priorities; of a key that is there twice the last one. Other keys are ignored.

        Returns:
            How many of the keys `[n]` are items.

        Raises:
            UsageError: if a priority is negative, no finite number, or so high that its weight is none; then nothing
                has changed.
        """
        wanted = keys.to(torch.int64).numpy() if isinstance(keys, Tensor) else keys
        checked = checked_priorities(priorities, wanted.size, self.contents.most_priority)
        with self.lock:
            return self.contents.update(wanted, checked)

    def delete(self, keys: Tensor) -> int:
        """Delete items. Returns how many there were; unknown and outdated keys are ignored."""
        with self.lock:
            slots = torch.unique(self.contents.items.find(keys))
            slots = slots[slots >= 0]
            if len(slots):
                self.contents.delete(slots)
            released = self._leave()
        self._release(released)
        return len(slots)

    def reset(self) -> None:
        """Delete all items, and set all counts to 0."""
        with self.lock:
            self.contents.reset()
            released = self._leave()
        self._release(released)

    def info(self) -> dict[str, Any]:
        """Sizes, counts and bytes; of extensions by the names of their classes."""
        with self.lock:
            counters = self.limiter.counters
            return {
                "items": counters.size,
                "max_size": self.contents.max_size,
                "inserts": counters.inserts,
                "samples": counters.samples,
                "deletes": counters.deletes,
                "unique_samples": self.contents.unique_samples,
                "stale": self.contents.stale,
                "waiting_inserts": self._waiting["inserts"],
                "waiting_samples": self._waiting["samples"],
                "storage": self.storage.info(),
            } | {type(extension).__name__: extension.info() for extension in self.contents.extensions}

    def references(self) -> tuple[Tensor, Tensor]:
        """As in `Evicting`."""
        with self.lock:
            return self.contents.references()

    def evict_from(self, blocks: Tensor) -> None:
        """As in `Evicting`."""
        with self.lock:
            self.contents.evict_from(blocks)
            released = self._leave()
        self._release(released)

    def close(self) -> None:
        """Delete all items, leave the storage, and end all waits, by `ReplayTimeoutError`."""
        with self.lock:
            was_closed, self.is_closed = self.is_closed, True
            self.contents.delete_all()
            released = self._leave()
        self._release(released)
        if not was_closed:
            self.storage.tables -= 1
            self.storage.blocks.leave(self)

    def gather(self, records: Tensor, columns: tuple[str, ...] | None = None, out: Rows | None = None) -> Rows:
        """The rows of selected items, whose records `[B, 3 + columns]` these are; the rest as in `sample`."""
        return gather_items(self.storage, records, columns, out)

    def _await(self, is_ready: Callable[[], bool], what: str, count: int, deadline: float, done: int = 0) -> None:
        """Wait under the lock. Raises `ReplayTimeoutError`."""
        if is_ready() and not self.is_closed:
            return
        began = time.monotonic()
        self._waiting[what] += 1
        try:
            while self.is_closed or not is_ready():
                left = deadline - time.monotonic()
                if self.is_closed or left <= 0:
                    why = "the table was closed" if self.is_closed else f"not after {time.monotonic() - began:.3g} s"
                    text = f"table {self.name}: {count} {what} were not allowed, {why}: {self.limiter.why(count, what)}"
                    raise ReplayTimeoutError(f"{text}, {self.contents.stale} items are stale", done)
                self.lock.wait(left)
        finally:
            self._waiting[what] -= 1

    def _leave(self) -> list[Runs]:
        """Wake who waits, before the lock is given back. Returns the blocks to release then."""
        if self._waiting["inserts"] or self._waiting["samples"]:
            self.lock.notify_all()
        released, self.contents.released = self.contents.released, []
        return released

    def _release(self, released: list[Runs]) -> None:
        for blocks in released:
            self.storage.blocks.release_runs(blocks)


def checked_priorities(priority: Priorities, count: int, most: float = sys.float_info.max) -> NDArray[np.float64]:
    """Priorities as float64 `[count]`.

    Raises:
        UsageError: if there are as many as neither items nor 1, or one is negative, no finite number, or above `most`.
    """
    if isinstance(priority, Tensor):
        priority = priority.detach().to("cpu", torch.float64).numpy()
    values = np.asarray(priority, dtype=np.float64)
    if values.ndim > 1 or values.size not in (1, count):
        raise UsageError(f"priorities are {list(values.shape)}, the items [{count}]")
    check_priorities(values, most)
    return np.ascontiguousarray(values) if values.shape == (count,) else np.full(count, values)
