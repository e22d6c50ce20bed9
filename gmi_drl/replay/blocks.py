"""Blocks of steps: who holds them, and which are free. A block that somebody needs is never written over."""

import threading
import time
from collections import deque
from collections.abc import Callable
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers, Runs, index_of, runs, runs_of_row
from gmi_drl.replay.limiters import WAIT_S, ReplayTimeoutError
from gmi_drl.replay.room import Evicting, cheapest

BLOCK_BYTES = 2**20
"""Bytes of a block, unless `ITEMS_PER_BLOCK` of the longest items need more."""

ITEMS_PER_BLOCK = 8
FEW = 4
"""Blocks that are looked at one by one: arrays take longer."""

_NOBODY = -1


class Blocks:
    """Counts for each block the items that need it, and knows the stream that may write to it (its holder).

    A holder leases a block, and ends its lease; an item holds one, and releases it. A block is freed when no item and
    no holder needs it any more, and free, to be leased again, when no reader that began before that reads on. All
    methods may be called by several threads; none calls back under its lock.

    Args:
        count: Blocks.
        block_steps: Steps of each.
        newest_first: Whether the block that became free last is leased first: then memory that was never needed is
            not touched.

    Attributes:
        tables: Those that evict items when no block is free.
    """

    def __init__(self, count: int, block_steps: int, newest_first: bool = False) -> None:
        self.count, self.block_steps, self._newest_first = count, block_steps, newest_first
        self.tables: list[Evicting] = []
        self._streams: WeakSet[object] = WeakSet()
        self._changed = threading.Condition()
        self._evicting = threading.Lock()  # one thread at a time evicts, so that no two do it for the same need
        self._references = torch.zeros(count, dtype=torch.int64)
        self._holders = torch.full((count,), _NOBODY, dtype=torch.int64)
        self._counts, self._owners = self._references.numpy(), self._holders.numpy()  # the same memory
        self._free: deque[int] = deque(range(count))
        self._opened = torch.zeros(count, dtype=torch.int64)  # the number of each block's last lease
        self._leases = self._next_ticket = 0
        self._readers: dict[int, None] = {}  # by ticket, oldest first
        self._ending: deque[tuple[Callable[[], bool], int]] = deque()  # readers that end when this returns True
        self._freed: deque[tuple[int, list[int]]] = deque()  # with the first ticket that need not be waited for

    @property
    def free(self) -> int:
        """Blocks that may be leased."""
        return len(self._free)

    @property
    def free_when_read(self) -> int:
        """Blocks that may be leased, now or when those have ended who read now."""
        with self._changed:
            return len(self._free) + self._kept

    def block_of(self, steps: Tensor) -> Tensor:
        """The blocks of steps."""
        return torch.from_numpy(steps.numpy() // self.block_steps)

    def needed_for(self, steps: Tensor) -> Runs:
        """The blocks of steps `[n]`, and how many of the steps are in each."""
        index = index_of(steps)
        if isinstance(index, slice) and len(steps):
            return runs_of_row(index, self.block_steps)
        return runs(steps.numpy() // self.block_steps)

    def register(self, stream: object) -> None:
        """Count an open stream, which needs a block of its own. One that is registered already counts once.

        Raises:
            UsageError: if there are more streams than blocks.
        """
        with self._changed:
            self._streams.add(stream)
            if len(self._streams) > self.count:
                self._streams.discard(stream)
                remedy = "close some, or make a storage of more steps"
                raise UsageError(f"{self.count + 1} streams write to {self.count} blocks, each needs one: {remedy}")

    def unregister(self, stream: object) -> None:
        """A stream is closed."""
        with self._changed:
            self._streams.discard(stream)

    def leave(self, table: Evicting) -> None:
        """A table evicts no more."""
        with self._evicting:
            if table in self.tables:
                self.tables.remove(table)

    def lease(self, count: int, holder: int, timeout_s: float = WAIT_S) -> list[int]:
        """Take free blocks to write to, the longest free ones first, or the last freed ones.

        Where too few are free, and would be if no reader were left, the tables evict. Else it waits.

        Args:
            count: How many.
            holder: A number from 0 on that names who writes.
            timeout_s: Seconds to wait, at most.

        Raises:
            UsageError: if there are not as many at all.
            ReplayTimeoutError: if they do not become free in time, with who needs them.
        """
        if count > self.count:
            raise UsageError(f"{count} blocks are more than all {self.count}: a storage of more steps, or less at once")
        deadline = time.monotonic() + timeout_s
        while (taken := self._take(count, holder)) is None:
            if self._evict(count):
                continue
            with self._changed:
                left = deadline - time.monotonic()
                if len(self._free) < count and left <= 0:
                    raise ReplayTimeoutError(f"{count} blocks are not free after {timeout_s:g} s: {self.told()}")
                if len(self._free) < count:
                    self._changed.wait(min(left, 0.05))  # then tables may have more to evict
        return taken

    def hold(self, blocks: Tensor) -> None:
        """Count an item for each of these blocks; of a block that is there twice, two."""
        self.hold_runs(runs(blocks.numpy()))

    def hold_runs(self, needed: Runs) -> None:
        """Count so many items for each of these blocks."""
        each, counts = needed
        with self._changed:
            if self._freed:  # a reader may hold what was freed after it began: then its release frees it
                self._keep([block for block in each.tolist() if not self._is_used(block)])
            np.add.at(self._counts, each, counts)

    def release(self, blocks: Tensor) -> None:
        """Count an item less for each of these blocks."""
        self.release_runs(runs(blocks.numpy()))

    def release_runs(self, needed: Runs) -> None:
        """Count so many items less for each of these blocks."""
        each, counts = needed
        with self._changed:
            np.subtract.at(self._counts, each, counts)
            unused = each[self._counts[each] == 0]
            if len(unused):
                self._free_those(sorted(set(unused.tolist())))

    def end_lease(self, blocks: list[int]) -> None:
        """Nobody writes to these blocks any more. Those that nobody has leased stay as they are."""
        with self._changed:
            leased = [block for block in blocks if self._owners[block] != _NOBODY]
            self._owners[leased] = _NOBODY
            self._free_those(leased)

    def are_used(self, blocks: Integers) -> bool:
        """Whether an item or a holder needs each of these blocks."""
        if len(blocks) <= FEW:
            return all(map(self._is_used, blocks.tolist()))
        return bool(((self._counts[blocks] > 0) | (self._owners[blocks] != _NOBODY)).all())

    def told(self) -> str:
        """Who needs the blocks, in numbers."""
        held, used = int((self._holders != _NOBODY).sum()), int((self._references > 0).sum())
        needed = f"{held} are written to, {used} have items, {self._kept} are still read"
        return f"of {self.count} blocks, {needed}, {self.free} are free"

    def begin_reading(self) -> int:
        """Keep all that is used now from being written over. Returns a ticket for `end_reading`."""
        with self._changed:
            ticket = self._next_ticket
            self._next_ticket += 1
            self._readers[ticket] = None
            return ticket

    def end_reading(self, ticket: int) -> None:
        """End a reading. Blocks that have become unused meanwhile are free when all earlier readers have ended, too."""
        with self._changed:
            del self._readers[ticket]
            if self._freed:
                self._recycle()

    def end_reading_when(self, is_done: Callable[[], bool], ticket: int) -> None:
        """End a reading as soon as `is_done` returns True: whoever reads or needs a block next asks."""
        self._ending.append((is_done, ticket))
        self._end_readings()

    def state_dict(self) -> dict[str, Tensor]:
        """References, holders, ages and the free blocks in their order; those that only readers keep are free."""
        with self._changed:
            free = [*self._free, *(block for _, blocks in self._freed for block in blocks)]
            return {
                "references": self._references.clone(),
                "holders": self._holders.clone(),
                "free": torch.tensor(free, dtype=torch.int64),
                "opened": self._opened.clone(),
            }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a `state_dict` of as many blocks. Earlier ones say nothing of ages."""
        with self._changed:
            self._references.copy_(state["references"])
            self._holders.copy_(state["holders"])
            self._free = deque(state["free"].tolist())
            self._freed.clear()
            self._opened.copy_(state.get("opened", torch.zeros_like(self._opened)))
            self._leases = int(self._opened.max()) + 1
            self._changed.notify_all()

    def _take(self, count: int, holder: int) -> list[int] | None:
        """Take free blocks; None if there are too few."""
        self._end_readings()
        with self._changed:
            if len(self._free) < count:
                return None
            take = self._free.pop if self._newest_first else self._free.popleft
            taken = [take() for _ in range(count)]
            self._owners[taken] = holder
            self._opened.numpy()[taken] = self._leases
            self._leases += 1
            return taken

    def _evict(self, count: int) -> bool:
        """Let tables evict until `count` blocks are free or kept by readers only. Returns whether any had to."""
        with self._evicting:
            with self._changed:
                missing = count - self.free_when_read
                references = self._references.masked_fill(self._holders != _NOBODY, 0)
            if missing <= 0 or not self.tables or int((references > 0).sum()) < missing:
                return False
            blocks = cheapest(self.tables, missing, references, self._opened)
            for table in self.tables if len(blocks) else ():
                table.evict_from(blocks)
            return len(blocks) > 0

    @property
    def _kept(self) -> int:
        """Blocks that nobody but readers needs."""
        return sum(len(blocks) for _, blocks in self._freed)

    def _end_readings(self) -> None:
        for _ in range(len(self._ending)):
            try:
                is_done, ticket = self._ending.popleft()
            except IndexError:  # another thread has them
                return
            if is_done():
                self.end_reading(ticket)
            else:
                self._ending.append((is_done, ticket))

    def _keep(self, blocks: list[int]) -> None:
        """These are needed again."""
        if blocks:
            self._freed = deque((ticket, [one for one in freed if one not in blocks]) for ticket, freed in self._freed)

    def _is_used(self, block: int) -> bool:
        return bool(self._counts[block] > 0) or bool(self._owners[block] != _NOBODY)

    def _free_those(self, blocks: list[int]) -> None:
        unused = [block for block in blocks if not self._is_used(block)]
        if unused:
            self._freed.append((self._next_ticket, unused))
            self._recycle()

    def _recycle(self) -> None:
        oldest = next(iter(self._readers), self._next_ticket)
        while self._freed and self._freed[0][0] <= oldest:
            self._free.extend(self._freed.popleft()[1])
        self._changed.notify_all()
