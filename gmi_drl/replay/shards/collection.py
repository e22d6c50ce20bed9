"""Collection (GEAR 3.4): gather what is local, move what is remote all at once, scatter it into place."""

from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.shards.calls import Calls
from gmi_drl.replay.shards.requests import GONE, Owned, Request

IN_PLACE_BYTES = 16 * 1024
"""Rows of a trajectory in a column that are at least so large are sent by themselves: two copies less of each."""


class Trajectories(dict[str, Tensor]):
    """Fields `[n, T, *shape]` by name, views of `rows`."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows.fields)
        self.rows = rows


class Collection:
    """Collects for one rank.

    Args:
        calls: Of the ranks.
        heads: The ranks that need data.
    """

    def __init__(self, calls: Calls, heads: Sequence[int]) -> None:
        self._calls, self._heads = calls, tuple(heads)
        self._memory: dict[str, Tensor] = {}

    def check(self, request: Request) -> Owned:
        """Begin the call; see that all that is asked for is there. Returns what this rank owns of it.

        Raises:
            UsageError: if not, with the first place that is wrong, in the same words on all ranks.
        """
        calls, shard = self._calls, self._calls.shard
        owned: Owned | None = None

        def tell() -> tuple[int, int, int]:
            nonlocal owned
            owned = request.owned_by(calls.meeting.rank, shard.lengths)
            return request.first_wrong(owned, shard.lengths)

        rows = calls.begin(request, tell)
        calls.check(request.indices)
        if not request.columns:
            raise UsageError("no column is to be collected: name some, or None for all")
        if unknown := [name for name in request.columns if name not in shard.storage.signature.views]:
            known = ", ".join(shard.storage.signature.columns)
            raise UsageError(f"there is no column {unknown[0]!r} (columns: {known})")
        if request.is_split and len(request.indices) < len(self._heads):
            raise UsageError(f"{len(request.indices)} trajectories cannot be split over {len(self._heads)} heads")
        request.check_window(shard.steps)
        if rows[:, 0].any():
            self._refuse(request, rows)
        assert owned is not None  # the indices were checked
        return owned if request.window is None else owned._replace(starts=request.starts_of(owned))

    def collect(self, request: Request, owned: Owned, out: Trajectories | None) -> tuple[Trajectories, Tensor]:
        """Gather, move and scatter. On ranks that are no heads nothing comes out."""
        meeting, rank = self._calls.meeting, self._calls.meeting.rank
        steps = request.window[1] if request.window else self._calls.shard.steps
        first, last = self._part(request, rank) if rank in self._heads else (0, 0)
        target = self._target(request, last - first, steps, out)
        lengths = np.zeros(last - first, dtype=np.int64)
        mine = owned.between(first, last) if request.is_split or first == last else owned
        if not meeting.others:
            self._gather_own(request, mine, target, lengths)
            return target, torch.from_numpy(lengths)
        in_place = self._is_in_place(request)
        sends = self._sends(request, owned, steps, in_place)
        into, packed = dict[int, list[Tensor]](), dict[int, tuple[Integers, Tensor]]()
        owners = request.numbers[first:last] // self._calls.shard.trajectories
        for other in meeting.others:
            here = (owners == other).nonzero()[0]
            if not (count := len(here)):
                continue
            size = count if in_place else _even(count) + count * steps * sum(self._widths(request))
            buffer = self._room(f"from {other}", size, meeting.device)
            packed[other], into[other] = (here, buffer), [buffer]
            if in_place:
                into[other] += [target.rows.words[column][place] for column in request.columns for place in here]
        self._gather_own(request, mine, target, lengths)
        meeting.move("trajectories", sends, into)
        for here, buffer in packed.values():
            lengths[here] = buffer[: len(here)].cpu().numpy()
            if not in_place:
                self._scatter(request, torch.from_numpy(here), buffer, target.rows)
        return target, torch.from_numpy(lengths)

    def _refuse(self, request: Request, rows: Integers) -> NoReturn:
        """Raise the error of the first place that an owner cannot serve."""
        rank = int(rows[:, 0].nonzero()[0][0])
        kind, place, length = rows[rank, :3].tolist()
        index, shard = int(request.indices[place]), self._calls.shard
        if kind == GONE:
            where = f"at place {place}: rank {rank} has {length} of {shard.trajectories}"
            raise UsageError(f"there is no trajectory {index}, {where}; it was evicted, or never committed")
        first = int(request.window[0][place]) if request.window else 0
        raise UsageError(
            f"a window from step {first} on of trajectory {index}, at place {place}: it has {length} steps"
        )

    def _sends(self, request: Request, owned: Owned, steps: int, in_place: bool) -> dict[int, list[Tensor]]:
        """What each other head gets from this rank."""
        sends = dict[int, list[Tensor]]()
        for head in self._heads:
            if head == self._calls.meeting.rank:
                continue
            part = owned.between(*self._part(request, head)) if request.is_split else owned
            if not len(part.local):
                continue
            if in_place:
                sends[head] = self._where_they_lie(request, part)
            elif sends and not request.is_split:  # all heads get the same
                sends[head] = next(iter(sends.values()))
            else:
                sends[head] = [self._pack(request, part, steps, head)]
        return sends

    def _is_in_place(self, request: Request) -> bool:
        """Whether rows are sent from where they lie to where they belong, without a buffer; the same on all ranks."""
        storage, shard = self._calls.shard.storage, self._calls.shard
        if request.window is not None or not shard.is_padded or storage.device.type != "cpu":
            return False
        return 8 * min(self._widths(request)) * shard.steps >= IN_PLACE_BYTES

    def _where_they_lie(self, request: Request, part: Owned) -> list[Tensor]:
        """Lengths, then the rows of each column: views of this shard's memory."""
        shard = self._calls.shard
        words = [shard.storage.rows.words[column].view(shard.trajectories, -1) for column in request.columns]
        return [torch.from_numpy(part.lengths), *(rows[index] for rows in words for index in part.local.tolist())]

    def _part(self, request: Request, head: int) -> tuple[int, int]:
        """Places of the list that a head collects: the first one, and the one behind the last."""
        count = len(request.indices)
        if not request.is_split:
            return 0, count
        heads, number = len(self._heads), self._heads.index(head)
        return number * count // heads, (number + 1) * count // heads

    def _pack(self, request: Request, part: Owned, steps: int, head: int) -> Tensor:
        """Lengths and rows for a head in contiguous memory: int64, first the lengths, then column after column."""
        count, widths = len(part.local), self._widths(request)
        end = _even(count)
        at = self._calls.shard.storage.device
        buffer = self._room(f"to {head}", end + count * steps * sum(widths), at)
        lengths = part.steps(steps)
        buffer[:count] = torch.from_numpy(lengths)
        for column, width in zip(request.columns, widths, strict=True):
            size = count * steps * width
            self._gather(column, part, lengths, buffer[end : end + size].view(count, steps, width))
            end += size
        return buffer.to(self._calls.meeting.device)

    def _gather_own(self, request: Request, part: Owned, target: Trajectories, lengths: Integers) -> None:
        """Put what this rank owns itself into its places."""
        if not (count := len(part.local)):
            return
        steps = part.steps(target.rows.lead[1])
        lengths[slice(None) if part.places is None else part.places] = steps
        for column in request.columns:
            rows = target.rows.words[column]
            if part.places is None:
                self._gather(column, part, steps, rows)
                continue
            some = self._room("own", count * rows[0].numel(), rows.device).view(count, *rows.shape[1:])
            self._gather(column, part, steps, some)
            rows.index_copy_(0, torch.from_numpy(part.places).to(rows.device), some)

    def _gather(self, column: str, part: Owned, lengths: Integers, out: Tensor) -> None:
        """Copy the rows of trajectories of this shard to `[m, T, words]`, zeros from their `lengths [m]` on."""
        shard, local = self._calls.shard, torch.from_numpy(part.local)
        storage = shard.storage
        rows = storage.rows.words[column]
        if part.starts is None and shard.is_padded and out.device == rows.device:
            torch.index_select(rows.view(shard.trajectories, -1), 0, local, out=out.view(len(out), -1))
            return
        first, steps = shard.first_of(local), out.shape[1]
        if part.starts is not None:
            first = first + torch.from_numpy(part.starts)
        are_whole = lengths.min() == steps
        if are_whole and storage.has_stretches:
            storage.gather_stretches(column, first, out)
            return
        length = steps if are_whole else torch.from_numpy(lengths)
        into = Rows(storage.signature, {column: out})
        storage.gather(first, length, longest=steps, columns=(column,), out=into)

    def _scatter(self, request: Request, here: Tensor, buffer: Tensor, target: Rows) -> None:
        """Put what came from one rank into its places."""
        count = len(here)
        end = _even(count)
        for column in request.columns:
            rows = target.words[column]
            size = count * rows[0].numel()
            part = buffer[end : end + size].view(count, *rows.shape[1:])
            rows.index_copy_(0, here.to(rows.device), part.to(rows.device, non_blocking=True))
            end += size

    def _widths(self, request: Request) -> list[int]:
        """Words of a step, by column."""
        return [self._calls.shard.storage.signature.row_bytes(column) // 8 for column in request.columns]

    def _target(self, request: Request, count: int, steps: int, out: Trajectories | None) -> Trajectories:
        storage = self._calls.shard.storage
        if out is not None and out.rows.lead == (count, steps) and out.rows.words.keys() == set(request.columns):
            return out
        return Trajectories(
            Rows.empty(storage.signature, (count, steps), device=storage.device, columns=request.columns)
        )

    def _room(self, name: str, numel: int, device: torch.device) -> Tensor:
        """Memory that is kept for the next call: to touch new pages takes longer than to copy them."""
        there = self._memory.get(name)
        if there is None or len(there) < numel:
            self._memory[name] = there = torch.empty(numel, dtype=torch.int64, device=device)
        return there[:numel]


def _even(count: int) -> int:
    """Rows begin at an even word, as numbers of 16 bytes need it."""
    return count + count % 2
