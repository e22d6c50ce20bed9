"""What every call of all ranks begins with: that all make it, and the updates that wait for their owners."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers
from gmi_drl.replay.selectors.base import check_priorities
from gmi_drl.replay.shards.meeting import Meeting, Words, numbers_of
from gmi_drl.replay.shards.requests import numbers_in
from gmi_drl.replay.shards.shard import EVICT, Shard

NOW = 2**31 - 1
"""As `as_of`: whatever lies there."""

_UPDATE = 3  # numbers of an update: index, as_of, bits of the priority
_NO_UPDATES, _NO_OWNERS = torch.empty(0, _UPDATE, dtype=torch.int64), torch.empty(0, dtype=torch.int64)


class Calls:
    """Begins calls of all ranks.

    Args:
        meeting: Of the ranks.
        shard: Of this one.

    Attributes:
        as_of: The number of the call by which the last list was selected.
        ignored: Updates of this shard's trajectories that were gone.
    """

    def __init__(self, meeting: Meeting, shard: Shard) -> None:
        self.meeting, self.shard = meeting, shard
        self.as_of, self.ignored = NOW, 0
        self._waiting: deque[Tensor] = deque()  # its calls are atomic: another thread may note updates at any time

    def begin(self, words: Words, tell: Callable[[], Sequence[int]] = tuple) -> Integers:
        """Meet, and give updates to their owners.

        Args:
            words: What this rank does.
            tell: Numbers for the others; asked again after updates.

        Returns:
            The numbers of all, int64 `[ranks, numbers]`.

        Raises:
            UsageError: if another rank does something else. All raise it, in the same words.
        """
        return self.begin_with(words, tell, None)[0]

    def begin_with(
        self, words: Words, tell: Callable[[], Sequence[int]], rows: Mapping[int, Tensor] | None
    ) -> tuple[Integers, dict[int, Tensor]]:
        """The same, with rows for some ranks, int64 `[n]`, which no update may change. Returns also what came."""
        meeting = self.meeting
        waiting = [self._waiting.popleft() for _ in range(len(self._waiting))] if self._waiting else []
        updates, owners, counts = self._by_owner(waiting)
        try:
            facts, theirs, came = meeting.agree(words, [len(updates), *tell()], counts, rows)
        except UsageError:
            self._waiting.extendleft(reversed(waiting))
            raise
        if any(facts[:, 0].tolist()):
            sends = {rank: updates[owners == rank].flatten() for rank in meeting.others}
            sizes = {rank: _UPDATE * int(theirs[rank]) for rank in meeting.others}
            parts = meeting.exchange("updates", sends, sizes)
            parts[meeting.rank] = updates[owners == meeting.rank].flatten()
            for _, part in sorted(parts.items()):
                index, as_of, bits = part.view(-1, _UPDATE).unbind(1)
                self.ignored += self.shard.update(index % self.shard.trajectories, as_of, numbers_of(bits.numpy()))
            facts = meeting.agree(words, [0, *tell()]).facts
        return facts[:, 1:], came

    def _by_owner(self, waiting: list[Tensor]) -> tuple[Tensor, Tensor, list[int] | None]:
        """Updates `[n, 3]`, the rank that each is for, and how many are for each rank."""
        if not waiting:
            return _NO_UPDATES, _NO_OWNERS, None
        updates = torch.cat(waiting)
        owners = updates[:, 0] // self.shard.trajectories
        return updates, owners, torch.bincount(owners, minlength=self.meeting.size).tolist()

    def update(self, indices: Tensor | Sequence[int], priorities: float | Tensor, as_of: int) -> None:
        """Note other priorities, `[n]` or one of all, for the next call.

        Args:
            indices: Global ones, int64 `[n]`.
            priorities: 0 or more.
            as_of: The number of a call: trajectories that were committed after it are others.

        Raises:
            UsageError: if an index or a priority is wrong; then none is noted.
        """
        self.check(indices := numbers_in(indices, "indices"))
        weights = torch.as_tensor(priorities, dtype=torch.float64, device="cpu").detach()
        if weights.dim() > 1 or weights.numel() not in (1, len(indices)):
            raise UsageError(f"priorities are {list(weights.shape)}, the indices [{len(indices)}]")
        check_priorities(weights.numpy(), self.shard.table.contents.most_priority)
        self._note(indices, weights, as_of)

    def evict(self, indices: Tensor | Sequence[int], as_of: int) -> None:
        """Note trajectories that are to be evicted at the next call; the rest as in `update`."""
        self.check(indices := numbers_in(indices, "indices"))
        self._note(indices, torch.tensor(EVICT, dtype=torch.float64), as_of)

    def check(self, indices: Tensor) -> None:
        """Raise unless these are indices `[n]` of places that there are.

        Raises:
            UsageError: with the first that is not, and what there is.
        """
        if indices.dtype != torch.int64 or indices.dim() != 1:
            raise UsageError(f"indices are int64 [n], not {indices.dtype} {list(indices.shape)}")
        size, each = self.meeting.size, self.shard.trajectories
        values = indices.numpy()
        if values.size and values.view(np.uint64).max() >= size * each:  # as unsigned numbers, negative ones are large
            place = int(np.flatnonzero((values < 0) | (values >= size * each))[0])
            text = f"index {int(indices[place])}, at place {place}, is none of {size} shards of {each} trajectories"
            raise UsageError(f"{text}: 0 to {size * each - 1}")

    def _note(self, indices: Tensor, weights: Tensor, as_of: int) -> None:
        bits = weights.expand(len(indices)).contiguous().view(torch.int64)
        self._waiting.append(torch.stack((indices, torch.full_like(indices, as_of), bits), 1))
