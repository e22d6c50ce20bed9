"""Lists of selected trajectories, which stay where they are until they are collected."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from gmi_drl.replay.indices import Integers
from gmi_drl.replay.shards.requests import Owned, Request
from gmi_drl.replay.shards.shard import Shard


class Lists:
    """Holds what this rank owns of each list that was selected and is neither collected nor dropped.

    Args:
        shard: Of this rank.
        rank: This rank.
    """

    def __init__(self, shard: Shard, rank: int) -> None:
        self._shard, self._rank = shard, rank
        self._open: Counter[bytes] = Counter()

    def own(self, indices: Tensor) -> Tensor:
        """Places in this rank's shard of those that it owns, in order."""
        count = self._shard.trajectories
        local = indices.numpy() - self._rank * count
        is_own = local.view(np.uint64) < count  # as unsigned numbers, negative ones are large
        return torch.from_numpy(local[is_own])

    def keep(self, indices: Tensor) -> None:
        """The own part of this list is held from now on (`Shard.hold` was called)."""
        with self._shard.lock:
            self._open[_digest(indices)] += 1

    def end(self, indices: Tensor) -> None:
        """Release the own part of a list. Of one that is not held there is nothing to do."""
        with self._shard.lock:
            if not self._open or (digest := _digest(indices)) not in self._open:
                return
            self._open[digest] -= 1
            if not self._open[digest]:
                del self._open[digest]
        self._shard.release(self.own(indices))

    @contextmanager
    def reading(self, request: Request, places: Integers) -> Iterator[Owned]:
        """Give what this rank owns of a request, at these places; hold what is there for the time of a `with` block."""
        shard = self._shard
        with shard.lock:
            owned = request.owned_by(self._rank, places, shard.lengths.numpy())
            there = owned.there()
            is_held = bool(self._open) and _digest(request.indices) in self._open  # as a list, until its end
            if not is_held:
                shard.hold(there)
        try:
            yield owned
        finally:
            if not is_held:
                shard.release(there)

    def __len__(self) -> int:
        """Different lists that are held."""
        return len(self._open)


def _digest(indices: Tensor) -> bytes:
    return blake2b(indices.contiguous().numpy().data, digest_size=16).digest()
