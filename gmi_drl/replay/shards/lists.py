"""Lists of selected trajectories, which stay where they are until they are collected."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from gmi_drl.replay.indices import Integers
from gmi_drl.replay.shards.shard import Shard

_NONE = np.empty(0, dtype=np.int64)


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
        return torch.from_numpy(self._own(indices.numpy()))

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
    def reading(self, indices: Tensor) -> Iterator[None]:
        """Hold the own part of any indices for the time of a `with` block, as far as it is there."""
        shard = self._shard
        local = self._own(indices.numpy()) if indices.dtype == torch.int64 and indices.dim() == 1 else _NONE
        with shard.lock:
            is_held = bool(self._open) and _digest(indices) in self._open  # as a list, until its end
            if not is_held:
                there = shard.lengths.numpy()[local]
                own = torch.from_numpy(local if there.all() else local[there > 0])
                shard.hold(own)
        try:
            yield
        finally:
            if not is_held:
                shard.release(own)

    def _own(self, indices: Integers) -> Integers:
        """See `own`. By numpy: a third of torch's time for few."""
        count = self._shard.trajectories
        local = indices - self._rank * count
        is_own = local.view(np.uint64) < count  # as unsigned numbers, negative ones are large
        return local if is_own.all() else local[is_own]

    def __len__(self) -> int:
        """Different lists that are held."""
        return len(self._open)


def _digest(indices: Tensor) -> bytes:
    return blake2b(indices.contiguous().numpy().data, digest_size=16).digest()
