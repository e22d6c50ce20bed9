"""Rows of trajectories in contiguous memory, as they go from rank to rank."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from gmi_drl.replay.fields import Signature
from gmi_drl.replay.indices import Integers
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.shards.requests import Owned
from gmi_drl.replay.storage import Storage


class Trajectories(dict[str, Tensor]):
    """Fields `[n, T, *shape]` by name, views of `rows`."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows.fields)
        self.rows = rows

    @cached_property
    def widths(self) -> dict[str, int]:
        """Words of a step in each column."""
        return {column: words.shape[-1] for column, words in self.rows.words.items()}

    @cached_property
    def arrays(self) -> dict[str, Integers]:
        """The words of each column `[n, T, words]` as arrays of the same memory, on cores."""
        return {column: words.numpy() for column, words in self.rows.words.items()}


class ReadableShard(Protocol):
    """What a `Shard` has for those who read its rows."""

    @property
    def storage(self) -> Storage:
        """Of the rows."""

    @property
    def trajectories(self) -> int:
        """Room for so many."""

    @property
    def is_padded(self) -> bool:
        """Whether each trajectory has room for the longest one, with zeros behind its end."""

    def first_of(self, indices: Integers) -> Integers:
        """The places of the first steps of trajectories `[n]` in the storage."""


class RowLayout:
    """How trajectories are packed: int64, first their lengths, then column after column.

    Args:
        signature: Of a step.
        columns: Which are packed.
        steps: T, of each trajectory.
    """

    def __init__(self, signature: Signature, columns: tuple[str, ...], steps: int) -> None:
        self.columns, self.steps = columns, steps
        self.widths = {column: signature.row_bytes(column) // 8 for column in columns}
        self._words = steps * sum(self.widths.values())

    def size(self, count: int) -> int:
        """Words of so many trajectories."""
        return _even(count) + count * self._words

    def places(self, count: int) -> Iterator[tuple[str, slice, tuple[int, int, int]]]:
        """Where the rows of each column lie among those of so many trajectories, and their shape `[m, T, words]`."""
        end = _even(count)
        for column, width in self.widths.items():
            first, end = end, end + count * self.steps * width
            yield column, slice(first, end), (count, self.steps, width)


class Packing:
    """Gathers, packs and unpacks, on any device.

    Args:
        shard: Whose rows are gathered.
    """

    def __init__(self, shard: ReadableShard) -> None:
        self._shard, self._storage = shard, shard.storage
        self._memory: dict[tuple[str, torch.device], Tensor] = {}

    def pack(self, layout: RowLayout, part: Owned, name: str) -> Tensor:
        """Lengths and rows of a part, in memory of this name."""
        count, lengths = len(part.local), part.steps(layout.steps)
        packed = self.room(name, layout.size(count), self._storage.device)
        packed[:count] = torch.from_numpy(lengths)
        self.gather(part, lengths, {column: packed[at].view(shape) for column, at, shape in layout.places(count)})
        return packed

    def unpack(
        self, layout: RowLayout, packed: Tensor, places: Integers, target: Trajectories, lengths: Integers
    ) -> None:
        """Put lengths and rows into their places."""
        count, at = len(places), torch.from_numpy(places)
        lengths[places] = packed[:count].cpu().numpy()
        for column, part, shape in layout.places(count):
            rows = target.rows.words[column]
            rows.index_copy_(0, at.to(rows.device), packed[part].view(shape).to(rows.device, non_blocking=True))

    def gather(self, part: Owned, lengths: Integers, into: Mapping[str, Tensor]) -> None:
        """Copy rows of this shard to `[m, T, words]` of each column, zeros from their `lengths [m]` on."""
        shard, storage = self._shard, self._storage
        if part.starts is None and shard.is_padded and storage.device.type == "cpu":
            local = torch.from_numpy(part.local)
            for column, out in into.items():
                rows = storage.rows.words[column].view(shard.trajectories, -1)
                torch.index_select(rows, 0, local, out=out.view(out.shape[0], -1))
            return
        begins = shard.first_of(part.local)
        first = torch.from_numpy(begins if part.starts is None else begins + part.starts)
        steps = next(iter(into.values())).shape[1]
        are_whole = np.count_nonzero(lengths < steps) == 0
        if are_whole and storage.has_stretches:
            for column, out in into.items():
                storage.gather_stretches(column, first, out)
            return
        length = steps if are_whole else torch.from_numpy(lengths)
        storage.gather(first, length, longest=steps, columns=tuple(into), out=Rows(storage.signature, into))

    def room(self, name: str, numel: int, device: torch.device) -> Tensor:
        """Memory that is kept for the next call: to touch new pages takes longer than to copy them."""
        there = self._memory.get((name, device))
        if there is None or there.shape[0] < numel:
            self._memory[name, device] = there = torch.empty(numel, dtype=torch.int64, device=device)
        return there[:numel]


class HostPacking(Packing):
    """The same on cores by numpy, whose calls take a third of torch's: windows are small."""

    def pack(self, layout: RowLayout, part: Owned, name: str) -> Tensor:
        """See `Packing`."""
        count, lengths = len(part.local), part.steps(layout.steps)
        packed = self.room(name, layout.size(count), self._storage.device)
        words = packed.numpy()
        words[:count] = lengths
        into = {column: torch.from_numpy(words[at].reshape(shape)) for column, at, shape in layout.places(count)}
        self.gather(part, lengths, into)
        return packed

    def unpack(
        self, layout: RowLayout, packed: Tensor, places: Integers, target: Trajectories, lengths: Integers
    ) -> None:
        """See `Packing`."""
        count, words, arrays = len(places), packed.numpy(), target.arrays
        lengths[places] = words[:count]
        for column, at, shape in layout.places(count):
            arrays[column][places] = words[at].reshape(shape)


def packing_for(shard: ReadableShard, device: torch.device) -> Packing:
    """The quickest one, if what goes to other ranks lies on this device."""
    are_cores = shard.storage.device.type == device.type == "cpu"
    return HostPacking(shard) if are_cores else Packing(shard)


def _even(count: int) -> int:
    """Rows begin at an even word, as numbers of 16 bytes need it."""
    return count + count % 2
