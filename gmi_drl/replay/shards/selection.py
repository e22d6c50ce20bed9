"""Selection where the trajectories lie: what a shard tells is exchanged, owners draw by themselves, one list comes out.

Weighted draws are exact: ranks tell their total weights, each draws the same owners from a generator that all derive
from the seed and the number of the selection, and an owner draws from its own tree (GEAR 3.3 keeps this central).
Ranked selections name the best of each shard, O(ranks x n), as GEAR's Fifo and TopK.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.shards import ways
from gmi_drl.replay.shards.calls import Calls
from gmi_drl.replay.shards.chances import Choice
from gmi_drl.replay.shards.meeting import bits_of, numbers_of

_NONE = -1


@dataclass
class Told:
    """What all ranks know of all shards, for one choice.

    Args:
        totals: Weight of each shard, float64 `[ranks]`; of a ranked choice how many each has named.
        there: Trajectories in all shards.
        owners: Of the best in order, int64 `[n]`, of a ranked choice.
        slots: Of this shard's best, in order.
        keys: Of these.
        age: Selections since then.
    """

    totals: Tensor
    there: int
    owners: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    slots: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    keys: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    age: int = 0


class Selection:
    """Selects for one rank.

    Args:
        calls: Of the ranks.
        seed: The same on all ranks.
        sync_every: Selections of one choice that go by what was told last.

    Attributes:
        stale: Places of lists for which an owner had no more what it had told, of all ranks.
        there: Trajectories in all shards, as told last.
    """

    def __init__(self, calls: Calls, seed: int, sync_every: int) -> None:
        self._calls, self._seed, self._sync_every = calls, seed, sync_every
        self._told: dict[Choice, Told] = {}
        self.stale = self.there = 0

    def forget(self) -> None:
        """All tell anew at the next selection."""
        self._told.clear()

    def attempt(self, words: str, count: int, choice: Choice, number: int, is_late: bool) -> Tensor | None:
        """Select once.

        Args:
            words: Of the call.
            count: n.
            choice: How.
            number: Of this selection: what it draws depends on it and on the seed.
            is_late: Whether this rank would not try again.

        Returns:
            Indices int64 `[n]`, whose own part is held; None if there was nothing, or not any more.

        Raises:
            UsageError: if the ranks differ, or fewer distinct trajectories can be selected.
            ReplayTimeoutError: if there is none and a rank is late.
        """
        told = self._told.get(choice)
        is_told_each_time = choice.is_ranked and choice.is_random  # what is told was drawn already
        if (
            told is None
            or told.age >= self._sync_every
            or is_told_each_time
            or (choice.is_ranked and len(told.owners) < count)
        ):
            told = self._tell(words, count, choice, number, is_late)
        else:
            self._calls.begin(words)
        if not told.there:
            return None
        told.age += 1
        if not float(told.totals.sum()):  # of weights that are all 0
            return self.attempt(words, count, choice._replace(way=ways.Uniform()), number, is_late)
        owners = told.owners[:count] if choice.is_ranked else self._draw_owners(told.totals, count, number)
        return self._listed(owners, choice, told, number)

    def _tell(self, words: str, count: int, choice: Choice, number: int, is_late: bool) -> Told:
        """Exchange what this choice needs to know."""
        shard, chances, meeting = self._calls.shard, self._calls.shard.chances, self._calls.meeting
        told, scores = Told(torch.empty(0), 0), torch.empty(0, dtype=torch.int64)

        def tell() -> Sequence[int]:
            nonlocal scores
            with shard.lock:
                if not choice.is_ranked:
                    return is_late, chances.count, bits_of(chances.total(choice))
                told.slots, scores = chances.best(choice, count, self._generator(number, meeting.rank))
                told.keys = shard.table.contents.items.records[told.slots, 0]
                return is_late, chances.count, bits_of(float(len(scores)))

        rows = self._calls.begin(words, tell)
        told.totals, told.there = numbers_of(rows[:, 2]), int(rows[:, 1].sum())
        self.there = told.there
        if not choice.is_ranked:
            choice.check_total(float(told.totals.sum()))
        if not told.there and rows[:, 0].any():
            raise ReplayTimeoutError("no shard has a trajectory to select, and a rank has waited for its timeout")
        if choice.is_ranked and told.there:
            self._rank(told, choice, scores, count)
        valid = {other: before for other, before in self._told.items() if before.age < self._sync_every}
        self._told = valid | {choice: told} if told.there else {}
        return told

    def _rank(self, told: Told, choice: Choice, scores: Tensor, count: int) -> None:
        """Find the owners of the best of all shards."""
        named = [int(total) for total in told.totals]
        if (can := sum(named) or told.there) < count:  # none has a weight: then all are as likely
            raise UsageError(f"{count} distinct trajectories are wanted, but only {can} can be selected: take fewer")
        keys = torch.cat(self._calls.meeting.gather("scores", scores, named))
        if choice.is_random and bool((keys.view(torch.float64) == torch.inf).any()):
            choice.check_total(torch.inf)
        order = keys.sort(descending=True, stable=True).indices[:count]
        told.owners = torch.repeat_interleave(torch.tensor(named))[order]

    def _draw_owners(self, totals: Tensor, count: int, number: int) -> Tensor:
        """The ranks from which the places of the list are drawn, the same on all ranks."""
        sums = totals.numpy().cumsum()
        last = np.flatnonzero(totals.numpy())[-1]
        points = torch.rand(count, dtype=torch.float64, generator=self._generator(number, "owners")).numpy()
        owners = sums[:-1].searchsorted(points * sums[-1], "right")  # of few ranks
        return torch.from_numpy(np.minimum(owners, last, out=owners))

    def _listed(self, owners: Tensor, choice: Choice, told: Told, number: int) -> Tensor | None:
        """The list whose places these ranks fill; None if one could not."""
        calls, meeting, shard = self._calls, self._calls.meeting, self._calls.shard
        places = owners.numpy()
        counts = np.bincount(places, minlength=meeting.size).tolist()
        own = self._answer(choice, told, counts[meeting.rank], number)
        answers = [part.numpy() for part in meeting.gather("list", own, [1 + size for size in counts])]
        self.stale += sum(int(answer[0]) for answer in answers)
        if any(answer.min() == _NONE for answer in answers):
            shard.release(own[1:][own[1:] != _NONE])
            self.forget()
            return None
        calls.as_of = meeting.calls
        indices = np.empty(len(places), dtype=np.int64)
        for rank, answer in enumerate(answers):
            indices[places == rank] = rank * shard.trajectories + answer[1:]
        return torch.from_numpy(indices)

    def _answer(self, choice: Choice, told: Told, count: int, number: int) -> Tensor:
        """What has changed since it told, then this shard's part of a list, held, with `_NONE` for what it lacks."""
        shard, chances = self._calls.shard, self._calls.shard.chances
        generator, stale = self._generator(number, self._calls.meeting.rank), 0
        with shard.lock:
            shard.meeting = self._calls.meeting.calls
            if choice.is_ranked:
                slots, keys = told.slots[:count], told.keys[:count]
                stale = int((shard.table.contents.items.records[slots, 0] != keys).sum())
                if stale:
                    slots = chances.best(choice, count, generator)[0]
            else:
                slots = chances.draw(choice, count, generator)
            own = chances.trajectories_of(slots)
            shard.hold(own)
        answer = torch.full((1 + count,), _NONE)
        answer[0], answer[1 : 1 + len(own)] = stale or count - len(own), own
        return answer

    def _generator(self, number: int, who: object) -> torch.Generator:
        return generator_of(self._seed, number, who)


def generator_of(seed: int, number: int, who: object) -> torch.Generator:
    """A generator that is derived anew for each selection, so that no rank can be ahead of another."""
    digest = blake2b(f"{seed}/{number}/{who}".encode(), digest_size=7).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little"))
