"""A stream of steps into a storage: what an actor saw, step after step. Items are stretches of it."""

import threading
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.limiters import WAIT_S
from gmi_drl.replay.storage.base import Storage


class Stream:
    """Writes steps in order, so that each stretch of up to `longest` steps of an episode lies in one piece.

    It goes on in its open block. When that is full, the last `longest - 1` steps of the episode are copied to the next
    block, so that coming items may begin there.

    Args:
        storage: Where the steps go.
        longest: Steps of the longest item; None for the storage's.
        holder: A number from 0 on, no other open stream's.

    Attributes:
        length: Steps of the episode so far that an item may have, `longest` at most.
        opened: Blocks that it has opened so far.

    Raises:
        UsageError: if the storage was not made for items that long, or has fewer blocks than open streams.
    """

    def __init__(self, storage: Storage, longest: int | None = None, holder: int = 0) -> None:
        self._storage, self.longest, self._holder = storage, longest or storage.longest, holder
        if not 1 <= self.longest <= storage.longest:
            raise UsageError(f"items of {self.longest} steps: the storage was made for 1 to {storage.longest}")
        storage.blocks.register(self)
        self.length = 0
        self._block: int | None = None
        self.opened = 0
        self._full: list[int] = []  # held until the next call, so that items of their steps can be inserted before
        self._next = self._end = 0
        self._moving = threading.Lock()  # a checkpoint may read where it is while another thread writes

    def append(self, fields: Mapping[str, Tensor], timeout_s: float = WAIT_S) -> Tensor:
        """Write n steps of one episode, which goes on.

        Args:
            fields: `[n, *shape]` of each field.
            timeout_s: Seconds to wait for room.

        Returns:
            Where they lie, int64 `[n]`. An item of L steps that ends with step i begins at `places[i] - (L - 1)`.

        Raises:
            UsageError: if a field is missing, unknown or of another shape or type, or there are more steps than all
                blocks but the open one take.
            ReplayTimeoutError: if there was no room for all of them; then none is written.

        Insert the items that end with these steps before the next call: until then nobody writes over them.
        """
        self._storage.signature.check(fields)
        self.give_back_full()
        count = len(next(iter(fields.values())))
        needed = self._blocks_for(count)
        if needed and self._block is not None and needed >= (every := self._storage.blocks.count):
            text = f"{count} steps at once need {needed} blocks besides the open one, but there are {every} in all"
            raise UsageError(f"{text}: a storage of more steps, or less at once")
        blocks = self._storage.blocks.lease(needed, self._holder, timeout_s) if needed else []
        places, done = [np.empty(0, dtype=np.int64)] if not count else [], 0
        while done < count:
            if self._next == self._end:
                self._open(blocks)
            part = min(count - done, self._end - self._next)
            is_all = part == count
            steps = fields if is_all else {name: value[done : done + part] for name, value in fields.items()}
            self._storage.write(self._next, steps)
            places.append(np.arange(self._next, self._next + part))
            self.advance(part)
            done += part
        return torch.from_numpy(np.concatenate(places) if len(places) != 1 else places[0])

    def reserve(self, timeout_s: float = WAIT_S) -> tuple[int, int]:
        """Find room for steps that somebody else writes, all in one block. `advance` says how many were written.

        Blocks that became full stay held until `give_back_full`.

        Returns:
            The place of the next step, and how many fit there, 1 at least.

        Raises:
            ReplayTimeoutError: if no block became free.
        """
        if self._next == self._end:
            self._open(self._storage.blocks.lease(1, self._holder, timeout_s))
        return self._next, self._end - self._next

    def advance(self, count: int) -> None:
        """So many steps were written at the place that `reserve` found."""
        with self._moving:
            self._next += count
            self.length = min(self.length + count, self.longest)

    @property
    def held(self) -> list[tuple[int, int]]:
        """The blocks that it holds, in order: the place where each begins, and how many of its steps are written."""
        if self._block is None:
            return []
        size = self._storage.blocks.block_steps
        return [*((block * size, size) for block in self._full), (self._block * size, size - self._end + self._next)]

    def give_back_full(self) -> None:
        """Hold the open block only: all items of those before are inserted."""
        if self._full:
            self._storage.blocks.end_lease(self._full)
            self._full = []

    def end_episode(self, last: Mapping[str, Tensor] | None = None, timeout_s: float = WAIT_S) -> int | None:
        """End the episode: no later item has steps of it.

        Args:
            last: Fields `[*shape]` of the observation after the last step, and others that no item reads. No item may
                begin there, but the one before may end there.
            timeout_s: As in `append`.

        Returns:
            The place of `last`.
        """
        place = None
        if last is not None:
            place = int(self.append({name: value[None] for name, value in last.items()}, timeout_s)[0])
        self.length = 0
        return place

    def close(self) -> None:
        """Give the open block back. Items that reference it keep it."""
        self.give_back_full()
        with self._moving:
            block, self._block = self._block, None
            self._next, self._end, self.length = 0, 0, 0
        if block is not None:
            self._storage.blocks.end_lease([block])
        self._storage.blocks.unregister(self)

    def state_dict(self) -> dict[str, int]:
        """Where it goes on. Take it where all items that end with the last steps are inserted."""
        with self._moving:
            block = -1 if self._block is None else self._block
            return {"block": block, "next": self._next, "end": self._end, "length": self.length, "holder": self._holder}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from a `state_dict`, in a storage that was restored with its blocks."""
        self._block = None if state["block"] < 0 else state["block"]
        self._next, self._end, self.length = state["next"], state["end"], state["length"]
        self._holder, self._full = state["holder"], []

    def _blocks_for(self, count: int) -> int:
        """How many blocks have to be opened for so many steps."""
        left = count - (self._end - self._next)
        if left <= 0:
            return 0
        carried, size = self.longest - 1, self._storage.blocks.block_steps
        first = size - min(self.length + count - left, carried)
        return 1 + max(0, -(-(left - first) // (size - carried)))

    def _open(self, leased: list[int]) -> None:
        """Go on in the first of these blocks, which is taken out, with the steps that coming items may need.

        If the block before cannot be written to its file, all of them are given back.
        """
        blocks, block = self._storage.blocks, leased[0]
        blocks.register(self)  # again, if it was closed
        first, carried = block * blocks.block_steps, min(self.length, self.longest - 1)
        try:
            if carried:
                self._storage.copy(self._next - carried, first, carried)
            if self._block is not None:
                self._storage.seal(self._block)
        except BaseException:
            blocks.end_lease(leased)
            raise
        if self._block is not None:
            self._full.append(self._block)
        with self._moving:
            self._block, self._next, self._end = leased.pop(0), first + carried, first + blocks.block_steps
        self.opened += 1
