"""Collection (GEAR 3.4): gather what is local, move what is remote all at once, scatter it into place."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.shards.calls import Calls

IN_PLACE_BYTES = 16 * 1024
"""Rows of a trajectory in a column that are at least so large are sent by themselves: two copies less of each."""

_GONE, _PAST_THE_END = 1, 2
Window = tuple[Tensor, int]


class Trajectories(dict[str, Tensor]):
    """Fields `[n, T, *shape]` by name, views of `rows`."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows.fields)
        self.rows = rows


@dataclass(frozen=True)
class Request:
    """What all ranks collect.

    Args:
        indices: int64 `[n]`.
        columns: Of the storage.
        window: See `Shards.collect`; None for whole trajectories.
        is_split: Whether each head gets a part of its own.
    """

    indices: Tensor
    columns: tuple[str, ...]
    window: Window | None
    is_split: bool


class Collection:
    """Collects for one rank.

    Args:
        calls: Of the ranks.
        heads: The ranks that need data.
    """

    def __init__(self, calls: Calls, heads: Sequence[int]) -> None:
        self._calls, self._heads = calls, tuple(heads)
        self._memory: dict[str, Tensor] = {}

    def check(self, words: str, request: Request) -> None:
        """Begin the call; see that all that is asked for is there.

        Raises:
            UsageError: if not, with the first place that is wrong, in the same words on all ranks.
        """
        calls = self._calls
        rows = calls.begin(words, lambda: self._first_wrong(request))
        calls.check(request.indices)
        if not request.columns:
            raise UsageError("no column is to be collected: name some, or None for all")
        if unknown := [name for name in request.columns if name not in calls.shard.storage.signature.columns]:
            known = ", ".join(calls.shard.storage.signature.columns)
            raise UsageError(f"there is no column {unknown[0]!r} (columns: {known})")
        if request.is_split and len(request.indices) < len(self._heads):
            raise UsageError(f"{len(request.indices)} trajectories cannot be split over {len(self._heads)} heads")
        _check_window(request, calls.shard.steps)
        for rank, (kind, place, length) in enumerate(rows[:, :3].tolist()):
            if not kind:
                continue
            index = int(request.indices[place])
            if kind == _GONE:
                where = f"at place {place}: rank {rank} has {length} of {calls.shard.trajectories}"
                raise UsageError(f"there is no trajectory {index}, {where}; it was evicted, or never committed")
            first = int(request.window[0][place]) if request.window else 0
            raise UsageError(
                f"a window from step {first} on of trajectory {index}, at place {place}: it has {length} steps"
            )

    def collect(self, request: Request, out: Trajectories | None) -> tuple[Trajectories, Tensor]:
        """Gather, move and scatter. On ranks that are no heads nothing comes out."""
        meeting, shard = self._calls.meeting, self._calls.shard
        rank, owners = meeting.rank, request.indices.numpy() // shard.trajectories
        steps = request.window[1] if request.window else shard.steps
        in_place = self._is_in_place(request)
        sends, into, packed = dict[int, list[Tensor]](), dict[int, list[Tensor]](), dict[int, Tensor]()
        for head in self._heads:
            places = self._part(request, head)
            places = places[owners[places] == rank]
            if head != rank and len(places):
                is_packed = not request.is_split and bool(sends)  # all heads get the same
                if in_place:
                    sends[head] = self._where_they_lie(request, places)
                else:
                    sends[head] = (
                        next(iter(sends.values())) if is_packed else [self._pack(request, places, steps, head)]
                    )
        own = self._part(request, rank) if rank in self._heads else np.empty(0, dtype=np.int64)
        by_owner = {other: np.flatnonzero(owners[own] == other) for other in range(meeting.size)}
        target = self._target(request, len(own), steps, out)
        lengths = torch.zeros(len(own), dtype=torch.int64)
        for other in meeting.others:
            if (count := len(by_owner[other])) and in_place:
                packed[other] = self._room(f"from {other}", count)
                rows = [target.words[column][place] for column in request.columns for place in by_owner[other]]
                into[other] = [packed[other], *rows]
            elif count:
                packed[other] = self._room(f"from {other}", _even(count) + count * steps * sum(self._widths(request)))
                into[other] = [packed[other]]
        self._gather_own(request, own, by_owner[rank], target, lengths)
        meeting.move("trajectories", sends, into)
        for other, buffer in packed.items():
            lengths.numpy()[by_owner[other]] = buffer[: len(by_owner[other])]
            if not in_place:
                self._scatter(request, torch.from_numpy(by_owner[other]), buffer, target)
        return Trajectories(target), lengths

    def _first_wrong(self, request: Request) -> tuple[int, int, int]:
        """The first place of the list that this shard owns and cannot serve: kind, place and what there is."""
        shard, indices = self._calls.shard, request.indices
        if not _is_list(indices):
            return 0, 0, 0
        owners, local = np.divmod(indices.numpy(), shard.trajectories)
        places = np.flatnonzero(owners == self._calls.meeting.rank)
        lengths = shard.lengths.numpy()[local[places]]
        if len(lengths) and not lengths.all():
            return _GONE, int(places[lengths == 0][0]), int((shard.lengths > 0).sum())
        if request.window and _is_list(request.window[0]) and len(request.window[0]) == len(indices):
            late = request.window[0].numpy()[places] >= lengths
            if late.any():
                return _PAST_THE_END, int(places[late][0]), int(lengths[late][0])
        return 0, 0, 0

    def _is_in_place(self, request: Request) -> bool:
        """Whether rows are sent from where they lie to where they belong, without a buffer; the same on all ranks."""
        storage, shard = self._calls.shard.storage, self._calls.shard
        smallest = min((8 * width * shard.steps for width in self._widths(request)), default=0)
        is_whole = request.window is None and shard.is_padded
        return is_whole and storage.device.type == "cpu" and smallest >= IN_PLACE_BYTES

    def _where_they_lie(self, request: Request, places: Integers) -> list[Tensor]:
        """Lengths, then the rows of each column: views of this shard's memory."""
        shard = self._calls.shard
        local, _, lengths = self._own(request, places)
        words = [shard.storage.rows.words[column].view(shard.trajectories, -1) for column in request.columns]
        return [lengths, *(rows[index] for rows in words for index in local.tolist())]

    def _part(self, request: Request, head: int) -> Integers:
        """Places of the list that a head collects."""
        count = len(request.indices)
        if not request.is_split:
            return np.arange(count)
        heads, number = len(self._heads), self._heads.index(head)
        return np.arange(number * count // heads, (number + 1) * count // heads)

    def _pack(self, request: Request, places: Integers, steps: int, head: int) -> Tensor:
        """Lengths and rows for a head in contiguous memory: int64, first the lengths, then column after column."""
        count, widths = len(places), self._widths(request)
        end = _even(count)
        buffer = self._room(f"to {head}", end + count * steps * sum(widths))
        local, starts, lengths = self._own(request, places)
        buffer[:count] = lengths
        for column, width in zip(request.columns, widths, strict=True):
            size = count * steps * width
            self._gather(column, local, starts, buffer[end : end + size].view(count, steps, width))
            end += size
        return buffer

    def _gather_own(self, request: Request, own: Integers, here: Integers, target: Rows, lengths: Tensor) -> None:
        """Put what this rank owns itself into its places."""
        if not len(here):
            return
        local, starts, lengths.numpy()[here] = self._own(request, own[here])
        for column in request.columns:
            rows = target.words[column]
            if len(here) == len(own):
                self._gather(column, local, starts, rows)
                continue
            part = self._room("own", len(here) * rows[0].numel()).view(len(here), *rows.shape[1:])
            self._gather(column, local, starts, part)
            rows.index_copy_(0, torch.from_numpy(here).to(rows.device), part.to(rows.device))

    def _own(self, request: Request, places: Integers) -> tuple[Tensor, Tensor | None, Tensor]:
        """Of these places, all of this shard: the local indices, first steps (None for 0), and lengths `[m]`."""
        shard = self._calls.shard
        local = torch.from_numpy(request.indices.numpy()[places] % shard.trajectories)
        lengths = shard.lengths[local]
        if request.window is None:
            return local, None, lengths
        starts = _starts(request.window, places, lengths)
        return local, starts, (lengths - starts).clamp_(max=request.window[1])

    def _gather(self, column: str, local: Tensor, starts: Tensor | None, out: Tensor) -> None:
        """Copy the rows of trajectories of this shard to `[m, T, words]`."""
        shard = self._calls.shard
        rows = shard.storage.rows.words[column]
        if starts is None and shard.is_padded and out.device == rows.device:
            torch.index_select(rows.view(shard.trajectories, -1), 0, local, out=out.view(len(out), -1))
            return
        first, steps = shard.first_of(local), out.shape[1]
        length: int | Tensor = steps
        if starts is not None:
            first = first + starts
        if not shard.is_padded:
            length = (shard.lengths[local] - (0 if starts is None else starts)).clamp_(max=steps)
        elif starts is not None and bool((starts > shard.steps - steps).any()):  # not into the next trajectory
            length = (shard.steps - starts).clamp_(max=steps)
        into = Rows(shard.storage.signature, {column: out})
        shard.storage.gather(first, length, longest=steps, columns=(column,), out=into)

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

    def _target(self, request: Request, count: int, steps: int, out: Trajectories | None) -> Rows:
        storage = self._calls.shard.storage
        if (
            out is not None
            and out.rows.fits((count, steps), request.columns)
            and len(out.rows.words) == len(request.columns)
        ):
            return out.rows
        return Rows.empty(storage.signature, (count, steps), device=storage.device, columns=request.columns)

    def _room(self, name: str, numel: int) -> Tensor:
        """Memory that is kept for the next call: to touch new pages takes longer than to copy them."""
        there = self._memory.get(name)
        if there is None or len(there) < numel:
            self._memory[name] = there = torch.empty(numel, dtype=torch.int64)
        return there[:numel]


def words_of(request: Request) -> str:
    """What a rank does that collects this."""
    indices, window = request.indices, request.window
    named = ", ".join(map(str, indices.flatten()[:4].tolist())) + (", ..." if indices.numel() > 4 else "")
    words = f"collects {indices.numel()} trajectories ({named}; checksum {_checksum(indices):08x})"
    words += f" of columns {', '.join(request.columns)}"
    if window is not None:
        words += f" by windows of {window[1]} steps ({_checksum(window[0]):08x})"
    return words + (" split over heads" if request.is_split else "")


def _is_list(values: Tensor) -> bool:
    return values.dtype == torch.int64 and values.dim() == 1


def _checksum(values: Tensor) -> int:
    return zlib.crc32(values.contiguous().numpy().data) if values.numel() else 0


def _even(count: int) -> int:
    """Rows begin at an even word, as numbers of 16 bytes need it."""
    return count + count % 2


def _check_window(request: Request, steps: int) -> None:
    if request.window is None:
        return
    starts, length = request.window
    is_whole, are_points = isinstance(length, int), _are_points(starts)
    is_list = (_is_list(starts) or are_points) and len(starts) == len(request.indices)
    if not is_list or not (is_whole and 1 <= length <= steps):
        text = f"a window has starts int64 or float64 [{len(request.indices)}] and a length of 1 to {steps}"
        raise UsageError(f"{text}, not {starts.dtype} {list(starts.shape)} and {length}")
    if are_points and not bool(((starts >= 0) & (starts < 1)).all()):
        raise UsageError("starts of windows are steps (int64) or fractions from 0 to below 1 (float64)")
    if len(starts) and not are_points and int(starts.min()) < 0:
        raise UsageError(f"a window begins at step 0 at least, not {int(starts.min())}")


def _are_points(starts: Tensor) -> bool:
    return starts.dtype == torch.float64 and starts.dim() == 1


def _starts(window: Window, places: Integers, lengths: Tensor) -> Tensor:
    """The first steps of the windows at these places, in trajectories of these lengths."""
    starts = window[0][torch.from_numpy(places)]
    if not _are_points(starts):
        return starts
    return (starts * (lengths - window[1] + 1).clamp_(min=1)).long()
