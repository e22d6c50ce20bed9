"""Lists of selected trajectories, which stay where they are until they are collected."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

import torch
from torch import Tensor

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
        local = indices.numpy() - self._rank * self._shard.trajectories  # numpy: a third of torch's time for few
        is_own = (local >= 0) & (local < self._shard.trajectories)
        return torch.from_numpy(local if is_own.all() else local[is_own])

    def keep(self, indices: Tensor) -> None:
        """The own part of this list is held from now on (`Shard.hold` was called)."""
        with self._shard.lock:
            self._open[_digest(indices)] += 1

    def end(self, indices: Tensor) -> None:
        """Release the own part of a list. Of one that is not held there is nothing to do."""
        digest = _digest(indices)
        with self._shard.lock:
            if not self._open[digest]:
                return
            self._open[digest] -= 1
            if not self._open[digest]:
                del self._open[digest]
        self._shard.release(self.own(indices))

    @contextmanager
    def reading(self, indices: Tensor) -> Iterator[None]:
        """Hold the own part of any indices for the time of a `with` block, as far as it is there."""
        with self._shard.lock:
            is_held = self._open[_digest(indices)] > 0  # as a list, until its end
        if is_held:
            yield
            return
        is_list = indices.dtype == torch.int64 and indices.dim() == 1
        own = self.own(indices) if is_list else torch.empty(0, dtype=torch.int64)
        with self._shard.lock:
            is_there = self._shard.lengths.numpy()[own.numpy()] > 0
            own = own if is_there.all() else own[torch.from_numpy(is_there)]
            self._shard.hold(own)
        try:
            yield
        finally:
            self._shard.release(own)

    def __len__(self) -> int:
        """Different lists that are held."""
        return len(self._open)


def _digest(indices: Tensor) -> bytes:
    return blake2b(indices.contiguous().numpy().data, digest_size=16).digest()
