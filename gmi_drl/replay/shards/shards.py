"""Trajectories sharded over the ranks that train: stored, selected and collected by the same calls on all (GEAR)."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from gmi_drl.comm.links.link import MovingLink
from gmi_drl.errors import UsageError
from gmi_drl.replay.limiters import WAIT_S
from gmi_drl.replay.shards import checkpoints, ways
from gmi_drl.replay.shards.buffer import Buffer
from gmi_drl.replay.shards.calls import Calls
from gmi_drl.replay.shards.central import select_centrally
from gmi_drl.replay.shards.chances import Choice
from gmi_drl.replay.shards.collection import Collection
from gmi_drl.replay.shards.lists import Lists
from gmi_drl.replay.shards.meeting import Meeting
from gmi_drl.replay.shards.packing import Trajectories
from gmi_drl.replay.shards.prefetch import Collected, Prefetch
from gmi_drl.replay.shards.progress import Progress
from gmi_drl.replay.shards.requests import Window, numbers_in
from gmi_drl.replay.shards.selection import Selection, generator_of
from gmi_drl.replay.shards.shard import Shard

_AGAIN_S = 0.02


class Shards:
    """The shards of all ranks, seen from one. `open_shards` makes it.

    `allocate`, `insert`, `update`, `evict` and `drop` concern this rank alone. All other methods are calls of all
    ranks: each makes the same with the same arguments, in the same order. Ranks that differ all raise the same
    `UsageError`, before anything is written. A rank that is lost is named on all others by `PeerDiedError` or
    `PeerSilentError`.

    Global indices are `rank x trajectories + local`.

    Attributes:
        shard: Of this rank.
        heads: The ranks that collect.
    """

    def __init__(self, link: MovingLink, shard: Shard, heads: Sequence[int], seed: int, sync_every: int) -> None:
        self._link, self.shard, self.heads, self._seed = link, shard, tuple(heads), seed
        self.rank, self.size = link.rank, link.size
        self._meeting = Meeting(link)
        self._calls = Calls(self._meeting, shard)
        self._lists = Lists(shard, link.rank)
        self._selection = Selection(self._calls, seed, sync_every)
        self._collection = Collection(self._calls, heads)
        self._progress = Progress()
        self._prefetch: Prefetch[Progress] | None = None

    @property
    def bytes(self) -> dict[str, int]:
        """What this rank has sent, by kind: agreement, updates, scores, list, central, trajectories."""
        return dict(self._meeting.bytes)

    @property
    def stale(self) -> int:
        """Places of lists for which an owner had no more what it had told, of all ranks."""
        return self._selection.stale

    @property
    def ignored(self) -> int:
        """Updates of trajectories of this rank that were gone."""
        return self._calls.ignored

    def allocate(self, count: int, timeout_s: float = WAIT_S) -> Buffer:
        """Room for `count` trajectories in this rank's shard, which are written in place.

        If there is none, the remover evicts what no list holds and nobody writes; else this waits.

        Raises:
            UsageError: if there is not as much room at all.
            ReplayTimeoutError: if there is none in time, with who needs it.
        """
        return Buffer(self.shard, self.shard.lease(count, timeout_s))

    def insert(
        self,
        fields: Mapping[str, Tensor],
        lengths: int | Tensor | None = None,
        priorities: float | Tensor = 1.0,
        version: int = 0,
        timeout_s: float = WAIT_S,
    ) -> Tensor:
        """Copy trajectories into this rank's shard.

        Args:
            fields: `[n, T, *shape]` of each field, T at most the steps of a trajectory.
            lengths: Steps of all or `[n]`; None for T.
            priorities: Of all or `[n]`.
            version: Of the policy that acted.
            timeout_s: As in `allocate`.

        Returns:
            Global indices, int64 `[n]`.

        Raises:
            UsageError: if fields or numbers are wrong; then nothing is in.
            ReplayTimeoutError: as `allocate`.
        """
        first = next(iter(fields.values()), torch.empty(0))
        if first.dim() < 2 or not 1 <= first.shape[1] <= self.shard.steps:
            text = f"trajectories are [n, T, ...] with 1 to {self.shard.steps} steps"
            raise UsageError(f"{text}, not {list(first.shape)}")
        self.shard.storage.signature.check(fields, tuple(first.shape[:2]))
        buffer = self.allocate(len(first), timeout_s)
        try:
            for name, value in fields.items():
                for view, rows in zip(buffer.views[name], value, strict=True):
                    view[: first.shape[1]] = rows
            steps = torch.as_tensor(first.shape[1] if lengths is None else lengths)
            if bool((steps > first.shape[1]).any()):
                raise UsageError(f"a length of {steps.max()} is more than the {first.shape[1]} steps that are given")
            buffer.commit(steps, priorities, version)
        finally:
            buffer.abandon()
        return torch.tensor(buffer.indices) + self.rank * self.shard.trajectories

    def update(self, indices: Tensor | Sequence[int], priorities: float | Tensor) -> None:
        """Give trajectories of any rank, `[n]`, other priorities, one or `[n]`, with the next call of all ranks.

        Those that are gone are ignored, and what was committed since this rank's last selection (or batch) is left as
        it is: it may lie in the place of what was meant. Owners count these (`ignored`).

        Raises:
            UsageError: if an index or a priority is wrong; then none is updated.
        """
        self._calls.update(indices, priorities, self._taken.as_of)

    def evict(self, indices: Tensor | Sequence[int]) -> None:
        """Evict trajectories of any rank, with the next call of all ranks. Lists that hold them keep them."""
        self._calls.evict(indices, self._taken.as_of)

    def drop(self, indices: Tensor | Sequence[int]) -> None:
        """This list will not be collected: its trajectories need not stay. Each rank drops its part."""
        self._lists.end(numbers_in(indices, "indices"))

    def sync(self) -> None:
        """Give updates to their owners. What shards have told is told anew at the next selection."""
        self._settle()
        self._calls.begin("synchronises")
        self._selection.forget()
        with self.shard.lock:
            self.shard.meeting = self._calls.as_of = self._meeting.calls
        self._progress = self._progress._replace(as_of=self._calls.as_of)

    def select(
        self,
        count: int,
        how: ways.Way | None = None,
        *,
        central: bool = False,
        distinct: bool = False,
        by_steps: bool = False,
        timeout_s: float = WAIT_S,
    ) -> Tensor:
        """Select trajectories of all shards. They stay until they are collected or dropped.

        Args:
            count: n.
            how: `Uniform()` (if None), `Weighted(C)`, `TopK()`, `Fifo()` or `Lifo()`.
            central: Whether one rank gathers all weights and selects, as in the paper; slow. Uniform and weighted.
            distinct: Whether none may be there twice. Of the last three none is.
            by_steps: Whether a trajectory weighs as much more as it has steps. Uniform and weighted.
            timeout_s: Seconds to wait for a first trajectory.

        Returns:
            Global indices int64 `[n]`, the same on all ranks.

        Raises:
            UsageError: if ranks differ, or fewer distinct trajectories can be selected.
            ReplayTimeoutError: if there is no trajectory in time.
        """
        way = ways.Uniform() if how is None else how
        choice = Choice(way, by_steps, distinct)
        marks = {"central": central, "distinct": distinct, "by steps": by_steps}
        words = f"selects {count} by {', '.join([str(way), *(name for name, is_set in marks.items() if is_set)])}"
        self._settle()
        if problem := ways.problem_of(count, way, by_steps):
            self._calls.begin(words)
            raise UsageError(problem)
        deadline = time.monotonic() + timeout_s
        while (indices := self._attempt(words, count, choice, central, time.monotonic() >= deadline)) is None:
            time.sleep(_AGAIN_S)
        return indices

    def collect(
        self,
        indices: Tensor | Sequence[int],
        columns: Sequence[str] | None = None,
        *,
        out: Trajectories | None = None,
        window: Window | None = None,
        split: bool = False,
    ) -> tuple[Trajectories, Tensor]:
        """Copy trajectories to the heads, in the order of the list. A list that `select` has returned is free then.

        Args:
            indices: Global ones, int64 `[n]`, the same on all ranks.
            columns: Of the storage; None for all.
            out: What an earlier call returned; written over if it has these sizes and columns.
            window: `(starts, length)`: of each trajectory `length` steps from `starts [n]` on; T is `length` then.
                Starts are steps (int64), or fractions (float64, from 0 to below 1) of the steps at which a window can
                begin: a trajectory of L steps has max(1, L - length + 1) of them.
            split: Whether the heads share the list: head number i of h gets its places from i n / h on.

        Returns:
            Fields `[n, T, *shape]` by name and lengths int64 `[n]`; steps past a trajectory's end are zeros. On ranks
            that are no heads, n is 0.

        Raises:
            UsageError: if ranks differ, an index is outside, or its trajectory is gone.
        """
        self._settle()
        names = self.shard.storage.signature.columns if columns is None else columns
        request = self._collection.request(indices, names, window, split)
        by_owner = request.by_owner(self.size, self.shard.trajectories)
        with self._lists.reading(request, by_owner[self.rank]) as owned:
            collected = self._collection.collect(request, owned, by_owner, out)
            self.shard.storage.await_gathers()
            self._lists.end(request.indices)
        return collected

    def prefetch(
        self,
        ahead: int,
        count: int,
        how: ways.Way | None = None,
        *,
        columns: Sequence[str] | None = None,
        window: int | None = None,
        distinct: bool = False,
        by_steps: bool = False,
        split: bool = False,
        timeout_s: float = WAIT_S,
    ) -> Prefetch[Progress]:
        """An endless iterator of batches, selected and collected `ahead` batches ahead in a thread of its own.

        Batches and their order are those of `select` and `collect` without it, unless priorities change meanwhile.
        Other calls of all ranks may be made between two batches: they wait until the thread rests. On cores a batch is
        valid until the next one is taken, which may be written over it. With a `window` a batch has so many steps of
        each trajectory, from `random_starts` on.

        Raises:
            UsageError: if one is open.
        """
        if self._prefetch is not None:
            raise UsageError("batches are prefetched already: end_prefetch() first")
        device = self.shard.storage.device
        outs: deque[Trajectories | None] = deque([None] * (ahead + 1 if device.type == "cpu" else 0))

        def make() -> Collected:
            indices = self.select(count, how, distinct=distinct, by_steps=by_steps, timeout_s=timeout_s)
            place = None if window is None else (self._starts_of(self._progress, count), window)
            out = outs.popleft() if outs else None
            fields, lengths = self.collect(indices, columns, split=split, out=out, window=place)
            if device.type == "cpu":  # a GPU may read a batch later than its next one is taken
                outs.append(fields)
            return Collected(indices, fields, lengths)

        self._prefetch = Prefetch(ahead, make, lambda: self._progress, device)
        return self._prefetch

    def end_prefetch(self) -> None:
        """End the iterator, on all ranks after as many batches. Later selections go on after the last one taken."""
        if self._prefetch is not None:
            prefetch, self._prefetch = self._prefetch, None
            prefetch.close()
            self._progress = prefetch.taken

    def random_starts(self, count: int) -> Tensor:
        """Starts of windows for the last list, float64 `[n]` from 0 to below 1, the same on all ranks."""
        return self._starts_of(self._taken, count)

    def epoch(self) -> float:
        """Epochs so far: the sum of n over the trajectories that there were, of all selections that were taken."""
        return self._taken.epochs

    def save(self, folder: Path, trainer_step: int) -> None:
        """Save all shards, each rank its own; see `checkpoints.save`."""
        self._settle()
        checkpoints.save(folder, self._calls, self._taken.selections, self._taken.epochs, trainer_step)
        self._selection.forget()

    def restore(self, folder: Path) -> int:
        """Load what `save` has saved, by as many ranks or another number; see `checkpoints.restore`."""
        self._settle()
        step, counts = checkpoints.restore(folder, self._calls)
        self._progress = Progress(counts.selections, counts.epochs, self._calls.as_of)
        self._selection.forget()
        return step

    def state_dict(self) -> dict[str, Tensor]:
        """How far the selections have come that were taken: on what later ones depend, beside the trajectories."""
        return self._taken.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on with the same lists. A call of all ranks, while nothing is prefetched."""
        self._progress = Progress.of(state)
        self._selection.forget()
        self.agree(f"goes on behind {self._progress.selections} selections")

    def agree(self, words: str) -> None:
        """Raise a `UsageError`, on all ranks, unless all say the same here; any text."""
        self._settle()
        self._calls.begin(words)

    def read_near(self) -> None:
        """From now on read shards of other ranks of this host where they lie, if that can be; a call of all ranks."""
        self._collection.read_near()

    def close(self) -> None:
        """Leave the group. The link is closed, too."""
        self.end_prefetch()
        self._collection.close()
        self._link.close()
        self.shard.table.close()

    @property
    def _taken(self) -> Progress:
        """What was handed out; batches that wait do not count."""
        return self._progress if self._prefetch is None else self._prefetch.taken

    def _attempt(self, words: str, count: int, choice: Choice, central: bool, is_late: bool) -> Tensor | None:
        number = self._progress.selections
        if central:
            indices, there = select_centrally(self._calls, words, count, choice, self._seed, number, is_late)
        else:
            indices = self._selection.attempt(words, count, choice, number, is_late)
            there = self._selection.there
        if indices is not None:
            self._lists.keep(indices)
            self._progress = Progress(number + 1, self._progress.epochs + count / there, self._calls.as_of)
        return indices

    def _starts_of(self, progress: Progress, count: int) -> Tensor:
        generator = generator_of(self._seed, progress.selections - 1, "starts")
        return torch.rand(count, dtype=torch.float64, generator=generator)

    def _settle(self) -> None:
        """A call of all ranks begins: not while a thread makes others."""
        if self._prefetch is not None and not self._prefetch.is_own():
            self._prefetch.settle()
