"""Collection (GEAR 3.4): gather what is local, move what is remote all at once, scatter it into place."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.shards.calls import Calls
from gmi_drl.replay.shards.requests import GONE, Owned, Request

AT_ONCE_BYTES = 128 * 1024
"""Requests of at most so many bytes are sent with the agreement: an exchange less, but a copy more."""

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
        self._meeting, self._shard, self._storage = calls.meeting, calls.shard, calls.shard.storage
        self._memory: dict[str, Tensor] = {}

    def check(self, request: Request) -> None:
        """Raise unless this can be asked for, on all ranks: what is wrong is then a call of all ranks, too.

        Raises:
            UsageError: if not, or another rank does something else.
        """
        try:
            self._check(request)
        except UsageError:
            self._calls.begin(request)
            raise

    def collect(self, request: Request, owned: Owned, out: Trajectories | None) -> tuple[Trajectories, Tensor]:
        """Begin the call; gather, move and scatter. On ranks that are no heads nothing comes out.

        Args:
            request: It was checked.
            owned: What this rank owns of it, and holds.
            out: Is written over if it fits, once all ranks agree.

        Raises:
            UsageError: if ranks differ, or an owner cannot serve a place; in the same words on all.
        """
        meeting, is_at_once = self._meeting, self._is_at_once(request)
        in_place = not is_at_once and self._is_in_place(request)
        wrong = request.first_wrong(owned, self._shard.lengths)
        packed = dict[int, Tensor]() if wrong[0] or in_place else self._packed(request, owned)
        own = packed.pop(meeting.rank, None)
        facts, came = self._calls.begin_with(request, lambda: wrong, packed if is_at_once else None)
        if any(facts[:, 0].tolist()):
            self._refuse(request, facts)
        first, last = self._places_of(request, meeting.rank)
        target = self._target(request, last - first, out)
        lengths = np.zeros(last - first, dtype=np.int64)
        places = self._places_by_owner(request, first, last)
        if in_place:
            self._move_in_place(request, owned, places, target, lengths)
        elif not is_at_once:
            came = self._move(request, packed, places)
        for other, buffer in came.items():
            self._scatter(request, places[other], buffer, target, lengths)
        self._put_own(request, self._part_of(request, owned, meeting.rank), own, target, lengths)
        return target, torch.from_numpy(lengths)

    def _check(self, request: Request) -> None:
        """Raise unless this can be asked for."""
        views, count = self._storage.signature.views, len(self._heads)
        self._calls.check(request.indices)
        if not request.columns:
            raise UsageError("no column is to be collected: name some, or None for all")
        if unknown := [name for name in request.columns if name not in views]:
            raise UsageError(f"there is no column {unknown[0]!r} (columns: {', '.join(views)})")
        if request.is_split and len(request.indices) < count:
            raise UsageError(f"{len(request.indices)} trajectories cannot be split over {count} heads")
        request.check_window(self._shard.steps)

    def _refuse(self, request: Request, facts: Integers) -> NoReturn:
        """Raise the error of the first place that an owner cannot serve."""
        rank = int(facts[:, 0].nonzero()[0][0])
        kind, place, length = facts[rank, :3].tolist()
        index = int(request.indices[place])
        if kind == GONE:
            where = f"at place {place}: rank {rank} has {length} of {self._shard.trajectories}"
            raise UsageError(f"there is no trajectory {index}, {where}; it was evicted, or never committed")
        first = int(request.window[0][place]) if request.window else 0
        raise UsageError(
            f"a window from step {first} on of trajectory {index}, at place {place}: it has {length} steps"
        )

    def _is_at_once(self, request: Request) -> bool:
        """Whether rows go with the agreement; the same on all ranks. One that is alone sends none."""
        if not self._meeting.others:
            return True
        return self._meeting.device.type == "cpu" and 8 * self._size(request, len(request.indices)) <= AT_ONCE_BYTES

    def _is_in_place(self, request: Request) -> bool:
        """Whether rows go from where they lie to where they belong, without a buffer; the same on all ranks."""
        if request.window is not None or not self._shard.is_padded or self._storage.device.type != "cpu":
            return False
        return 8 * min(self._widths(request)) * self._shard.steps >= IN_PLACE_BYTES

    def _places_of(self, request: Request, head: int) -> tuple[int, int]:
        """Places of the list that a head collects: the first one, and the one behind the last. Others collect none."""
        if head not in self._heads:
            return 0, 0
        count = len(request.indices)
        if not request.is_split:
            return 0, count
        heads, number = len(self._heads), self._heads.index(head)
        return number * count // heads, (number + 1) * count // heads

    def _part_of(self, request: Request, owned: Owned, head: int) -> Owned:
        """What a head gets of what this rank owns."""
        if head in self._heads and not request.is_split:
            return owned
        return owned.between(*self._places_of(request, head))

    def _places_by_owner(self, request: Request, first: int, last: int) -> dict[int, Integers]:
        """What each other rank fills of the places from the first one on, counted from it; none that fills nothing."""
        owners = request.numbers[first:last] // self._shard.trajectories
        found = {other: np.flatnonzero(owners == other) for other in self._meeting.others}
        return {other: places for other, places in found.items() if len(places)}

    def _packed(self, request: Request, owned: Owned) -> dict[int, Tensor]:
        """What each head gets from this rank, packed; this rank, too, if it would have to be scattered anyway."""
        packed, here = dict[int, Tensor](), self._meeting.device
        for head in self._heads:
            part = self._part_of(request, owned, head)
            is_own = head == self._meeting.rank
            if not len(part.local) or (is_own and (part.places is None or self._storage.device != here)):
                continue
            if packed and not request.is_split:  # all get the same
                packed[head] = next(iter(packed.values()))
            else:
                packed[head] = self._pack(request, part, head).to(here)
        return packed

    def _pack(self, request: Request, part: Owned, head: int) -> Tensor:
        """Lengths and rows for a head in contiguous memory: int64, first the lengths, then column after column."""
        count, lengths = len(part.local), part.steps(self._steps(request))
        buffer = self._room(f"to {head}", self._size(request, count), self._storage.device)
        buffer[:count] = torch.from_numpy(lengths)
        self._gather(part, lengths, self._views(request, buffer, count))
        return buffer

    def _move(self, request: Request, packed: dict[int, Tensor], places: dict[int, Integers]) -> dict[int, Tensor]:
        """Exchange what is packed. Returns what came, by rank."""
        device = self._meeting.device
        came = {
            other: self._room(f"from {other}", self._size(request, len(here)), device) for other, here in places.items()
        }
        self._meeting.move(
            "trajectories",
            {head: (buffer,) for head, buffer in packed.items()},
            {other: (buffer,) for other, buffer in came.items()},
        )
        return came

    def _move_in_place(
        self,
        request: Request,
        owned: Owned,
        places: dict[int, Integers],
        target: Trajectories,
        lengths: Integers,
    ) -> None:
        """Exchange lengths and rows, from where they lie to where they belong."""
        sends, into = dict[int, list[Tensor]](), dict[int, list[Tensor]]()
        for head in self._heads:
            part = self._part_of(request, owned, head)
            if head != self._meeting.rank and len(part.local):
                sends[head] = self._where_they_lie(request, part)
        for other, here in places.items():
            rows = [target.rows.words[column][place] for column in request.columns for place in here]
            into[other] = [self._room(f"from {other}", len(here), self._storage.device), *rows]
        self._meeting.move("trajectories", sends, into)
        for other, here in places.items():
            lengths[here] = into[other][0].numpy()

    def _where_they_lie(self, request: Request, part: Owned) -> list[Tensor]:
        """Lengths, then the rows of each column: views of this shard's memory."""
        words = [self._storage.rows.words[column].view(self._shard.trajectories, -1) for column in request.columns]
        return [torch.from_numpy(part.lengths), *(rows[index] for rows in words for index in part.local.tolist())]

    def _put_own(
        self, request: Request, part: Owned, packed: Tensor | None, target: Trajectories, lengths: Integers
    ) -> None:
        """Put what this rank owns itself into its places."""
        if not len(part.local):
            return
        if part.places is None:
            lengths[:] = part.steps(self._steps(request))
            self._gather(part, lengths, target.rows.words)
            return
        if packed is None:
            packed = self._pack(request, part, self._meeting.rank)
        self._scatter(request, part.places, packed, target, lengths)

    def _gather(self, part: Owned, lengths: Integers, into: Mapping[str, Tensor]) -> None:
        """Copy rows of this shard to `[m, T, words]` of each column, zeros from their `lengths [m]` on."""
        shard, storage, local = self._shard, self._storage, torch.from_numpy(part.local)
        if part.starts is None and shard.is_padded and storage.device.type == "cpu":
            for column, out in into.items():
                rows = storage.rows.words[column].view(shard.trajectories, -1)
                torch.index_select(rows, 0, local, out=out.view(len(out), -1))
            return
        first = shard.first_of(local)
        if part.starts is not None:
            first = first + torch.from_numpy(part.starts)
        steps = next(iter(into.values())).shape[1]
        are_whole = np.count_nonzero(lengths < steps) == 0
        if are_whole and storage.has_stretches:
            for column, out in into.items():
                storage.gather_stretches(column, first, out)
            return
        length = steps if are_whole else torch.from_numpy(lengths)
        storage.gather(first, length, longest=steps, columns=tuple(into), out=Rows(storage.signature, into))

    def _scatter(
        self, request: Request, places: Integers, packed: Tensor, target: Trajectories, lengths: Integers
    ) -> None:
        """Put what is packed into its places."""
        count, at = len(places), torch.from_numpy(places)
        lengths[places] = packed[:count].cpu().numpy()
        for column, part in self._views(request, packed, count).items():
            rows = target.rows.words[column]
            rows.index_copy_(0, at.to(rows.device), part.to(rows.device, non_blocking=True))

    def _views(self, request: Request, packed: Tensor, count: int) -> dict[str, Tensor]:
        """The rows of each column in packed memory, `[count, T, words]`."""
        views, steps, end = dict[str, Tensor](), self._steps(request), _even(count)
        for column, width in zip(request.columns, self._widths(request), strict=True):
            size = count * steps * width
            views[column] = packed[end : end + size].view(count, steps, width)
            end += size
        return views

    def _size(self, request: Request, count: int) -> int:
        """Words of so many trajectories that are packed."""
        return _even(count) + count * self._steps(request) * sum(self._widths(request))

    def _steps(self, request: Request) -> int:
        return self._shard.steps if request.window is None else request.window[1]

    def _widths(self, request: Request) -> list[int]:
        """Words of a step, by column."""
        return [self._storage.signature.row_bytes(column) // 8 for column in request.columns]

    def _target(self, request: Request, count: int, out: Trajectories | None) -> Trajectories:
        lead, columns, storage = (count, self._steps(request)), request.columns, self._storage
        if out is not None and out.rows.lead == lead and out.rows.words.keys() == set(columns):
            return out
        return Trajectories(Rows.empty(storage.signature, lead, device=storage.device, columns=columns))

    def _room(self, name: str, numel: int, device: torch.device) -> Tensor:
        """Memory that is kept for the next call: to touch new pages takes longer than to copy them."""
        there = self._memory.get(name)
        if there is None or len(there) < numel:
            self._memory[name] = there = torch.empty(numel, dtype=torch.int64, device=device)
        return there[:numel]


def _even(count: int) -> int:
    """Rows begin at an even word, as numbers of 16 bytes need it."""
    return count + count % 2
