"""Collection (GEAR 3.4): gather what is local or near, move what is remote all at once, put it into place."""

from collections.abc import Iterable, Sequence
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.shards.calls import Calls
from gmi_drl.replay.shards.near import open_near
from gmi_drl.replay.shards.packing import RowLayout, Trajectories, packing_for
from gmi_drl.replay.shards.reading import ShardReader
from gmi_drl.replay.shards.requests import GONE, Owned, Request, Window, between

AT_ONCE_BYTES = 128 * 1024
"""Requests of at most so many bytes are sent with the agreement: an exchange less, but a copy more."""

IN_PLACE_BYTES = 16 * 1024
"""Rows of a trajectory in a column that are at least so large are sent by themselves: two copies less of each."""


class Collection:
    """Collects for one rank.

    Args:
        calls: Of the ranks.
        heads: The ranks that need data.
    """

    def __init__(self, calls: Calls, heads: Sequence[int]) -> None:
        self._calls, self._heads = calls, tuple(heads)
        self._meeting, self._shard, self._storage = calls.meeting, calls.shard, calls.shard.storage
        self._packing = packing_for(calls.shard, calls.meeting.device)
        self._layout = RowLayout(self._storage.signature, (), 0)
        self._own = ShardReader(calls.shard, self._packing)
        self._near = dict[int, ShardReader]()  # by the rank whose shard it is
        self._readers = frozenset[int]()  # ranks that read this one's shard

    def read_near(self) -> None:
        """From now on read shards of other ranks of this host where they lie, if that can be; a call of all ranks."""
        shards, self._readers = open_near(self._meeting, self._shard)
        device = self._meeting.device
        self._near = {rank: ShardReader(shard, packing_for(shard, device)) for rank, shard in shards.items()}

    def close(self) -> None:
        """Forget the memory of other ranks."""
        self._near = {}

    def request(
        self, indices: Tensor | Sequence[int], columns: Sequence[str], window: Window | None, split: bool
    ) -> Request:
        """What is asked for, checked: what is wrong is a call of all ranks, too.

        Raises:
            UsageError: if it cannot be asked for, or another rank does something else.
        """
        request: Request | None = None
        try:
            request = Request.of(indices, columns, window, split)
            self._check(request)
        except UsageError:
            self._calls.begin(request or f"collects {indices} of columns {columns} by windows {window}")
            raise
        return request

    def collect(
        self, request: Request, owned: Owned, by_owner: Sequence[Integers], out: Trajectories | None
    ) -> tuple[Trajectories, Tensor]:
        """Begin the call; gather, move and put into place. On ranks that are no heads nothing comes out.

        A small request sends its rows with the agreement. A larger one sends near heads the lengths, and they copy the
        rows themselves; other heads get rows over the link.

        Args:
            request: It was checked.
            owned: What this rank owns of it, and holds.
            by_owner: The places of the list that each rank owns.
            out: Is written over if it fits, once all ranks agree.

        Raises:
            UsageError: if ranks differ, or an owner cannot serve a place; in the same words on all.
        """
        meeting, layout = self._meeting, self._layout_of(request)
        is_at_once = self._is_at_once(layout, len(request.numbers))
        in_place = not is_at_once and self._is_in_place(request)
        wrong = request.first_wrong(owned, self._shard.lengths.numpy())
        readers = frozenset[int]() if is_at_once else self._readers
        packed = dict[int, Tensor]() if wrong[0] or in_place else self._packed(request, layout, owned, readers)
        own = packed.pop(meeting.rank, None)
        sent = packed if is_at_once else self._lengths_for(readers, request, owned)
        facts, came = self._calls.begin_with(request, lambda: wrong, sent)
        if any(facts[:, 0].tolist()):
            self._refuse(request, facts)
        told, rows = (dict[int, Tensor](), came) if is_at_once else (came, dict[int, Tensor]())
        try:
            first, last = self._places_of(request, meeting.rank)
            target = self._target(layout, last - first, out)
            lengths = np.zeros(last - first, dtype=np.int64)
            places = {other: by_owner[other] for other in meeting.others}
            if last - first < len(request.numbers):
                places = {other: between(all_of_it, first, last) for other, all_of_it in places.items()}
            far = {other: here for other, here in places.items() if other not in self._near}
            if in_place:
                self._move_in_place(request, owned, far, target, lengths)
            elif not is_at_once:
                rows = self._move(layout, packed, far)
            for other, theirs in rows.items():
                self._packing.unpack(layout, theirs, places[other], target, lengths)
            part = self._part_of(request, owned, meeting.rank)
            self._own.put(layout, part, target, lengths, are_large=in_place, packed=own)
            for other, steps in told.items():
                at = places[other]
                part = request.told_by(other, at + first, steps.numpy(), self._shard.trajectories)._replace(places=at)
                self._near[other].put(layout, part, target, lengths, are_large=in_place)
        finally:  # also if this rank fails: others may still read its rows, and wait for its word
            if not is_at_once:
                self._end_reading(told, sent)
        return target, torch.from_numpy(lengths)

    def _check(self, request: Request) -> None:
        """Raise unless this can be asked for."""
        views, heads = self._storage.signature.views, len(self._heads)
        self._calls.check(request.indices)
        if not request.columns:
            raise UsageError("no column is to be collected: name some, or None for all")
        if unknown := [name for name in request.columns if name not in views]:
            raise UsageError(f"there is no column {unknown[0]!r} (columns: {', '.join(views)})")
        if request.is_split and len(request.numbers) < heads:
            raise UsageError(f"{len(request.numbers)} trajectories cannot be split over {heads} heads")
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

    def _layout_of(self, request: Request) -> RowLayout:
        """How rows are packed; the last one is kept."""
        steps = self._shard.steps if request.window is None else request.window[1]
        if (self._layout.columns, self._layout.steps) != (request.columns, steps):
            self._layout = RowLayout(self._storage.signature, request.columns, steps)
        return self._layout

    def _is_at_once(self, layout: RowLayout, count: int) -> bool:
        """Whether rows go with the agreement; the same on all ranks. One that is alone sends none."""
        if not self._meeting.others:
            return True
        return self._meeting.device.type == "cpu" and 8 * layout.size(count) <= AT_ONCE_BYTES

    def _is_in_place(self, request: Request) -> bool:
        """Whether rows go from where they lie to where they belong, without a buffer; the same on all ranks."""
        if request.window is not None or not self._shard.is_padded or self._storage.device.type != "cpu":
            return False
        widths = [self._storage.signature.row_bytes(column) for column in request.columns]
        return min(widths) * self._shard.steps >= IN_PLACE_BYTES

    def _places_of(self, request: Request, head: int) -> tuple[int, int]:
        """Places of the list that a head collects: the first one, and the one behind the last. Others collect none."""
        if head not in self._heads:
            return 0, 0
        count = len(request.numbers)
        if not request.is_split:
            return 0, count
        heads, number = len(self._heads), self._heads.index(head)
        return number * count // heads, (number + 1) * count // heads

    def _part_of(self, request: Request, owned: Owned, head: int) -> Owned:
        """What a head gets of what this rank owns."""
        if head in self._heads and not request.is_split:
            return owned
        return owned.between(*self._places_of(request, head))

    def _lengths_for(self, readers: frozenset[int], request: Request, owned: Owned) -> dict[int, Tensor]:
        """What heads that read this shard need to know: the lengths of what they will read, if that is something."""
        parts = {head: self._part_of(request, owned, head) for head in self._heads if head in readers}
        return {head: torch.from_numpy(part.lengths) for head, part in parts.items() if len(part.local)}

    def _end_reading(self, owners: Iterable[int], readers: Iterable[int]) -> None:
        """Tell owners that their rows were read; wait until readers have told the same of this shard's rows.

        Then these may be written over again.
        """
        sends = {owner: (torch.zeros(1, dtype=torch.int64),) for owner in owners}
        into = {reader: (torch.empty(1, dtype=torch.int64),) for reader in readers}
        if sends or into:
            self._meeting.move("agreement", sends, into)

    def _packed(self, request: Request, layout: RowLayout, owned: Owned, readers: frozenset[int]) -> dict[int, Tensor]:
        """What each head gets from this rank, packed; this rank, too, if it would have to be put into place anyway."""
        packed, here = dict[int, Tensor](), self._meeting.device
        for head in (head for head in self._heads if head not in readers):
            part = self._part_of(request, owned, head)
            is_own = head == self._meeting.rank
            if not len(part.local) or (is_own and (part.places is None or self._storage.device != here)):
                continue
            if packed and not request.is_split:  # all get the same
                packed[head] = next(iter(packed.values()))
            else:
                packed[head] = self._packing.pack(layout, part, f"to {head}").to(here)
        return packed

    def _move(self, layout: RowLayout, packed: dict[int, Tensor], places: dict[int, Integers]) -> dict[int, Tensor]:
        """Exchange what is packed. Returns what came, by rank."""
        came = {
            other: self._packing.room(f"from {other}", layout.size(len(here)), self._meeting.device)
            for other, here in places.items()
            if len(here)
        }
        self._meeting.move(
            "trajectories",
            {head: (rows,) for head, rows in packed.items()},
            {other: (rows,) for other, rows in came.items()},
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
        """Exchange lengths and rows with ranks that are not near, from where they lie to where they belong."""
        sends, into = dict[int, list[Tensor]](), dict[int, list[Tensor]]()
        for head in self._heads:
            part = self._part_of(request, owned, head)
            if head != self._meeting.rank and head not in self._readers and len(part.local):
                sends[head] = self._where_they_lie(request, part)
        for other, here in places.items():
            rows = [target.rows.words[column][place] for column in request.columns for place in here]
            into[other] = [self._packing.room(f"from {other}", len(here), self._storage.device), *rows]
        self._meeting.move("trajectories", sends, into)
        for other, here in places.items():
            lengths[here] = into[other][0].numpy()

    def _where_they_lie(self, request: Request, part: Owned) -> list[Tensor]:
        """Lengths, then the rows of each column: views of this shard's memory."""
        words = map(self._own.rows_of, request.columns)
        return [torch.from_numpy(part.lengths), *(rows[index] for rows in words for index in part.local.tolist())]

    def _target(self, layout: RowLayout, count: int, out: Trajectories | None) -> Trajectories:
        lead, storage = (count, layout.steps), self._storage
        if out is not None and out.rows.lead == lead and out.widths == layout.widths:
            return out
        return Trajectories(Rows.empty(storage.signature, lead, device=storage.device, columns=layout.columns))
