"""Lists of selected trajectories, which stay where they are until they are collected."""

from collections import Counter
from hashlib import blake2b

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
        return indices[indices // self._shard.trajectories == self._rank] % self._shard.trajectories

    def keep(self, indices: Tensor) -> None:
        """The own part of this list is held from now on (`Shard.hold` was called)."""
        self._open[_digest(indices)] += 1

    def end(self, indices: Tensor) -> None:
        """Release the own part of a list. Of one that is not held there is nothing to do."""
        digest = _digest(indices)
        if not self._open[digest]:
            del self._open[digest]
            return
        self._open[digest] -= 1
        self._shard.release(self.own(indices))

    def __len__(self) -> int:
        return self._open.total()


def _digest(indices: Tensor) -> bytes:
    return blake2b(indices.contiguous().numpy().data, digest_size=16).digest()
