"""What all ranks collect in one call, and what one rank owns of it."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers

Window = tuple[Tensor | Sequence[float], int]
GONE, PAST_THE_END = 1, 2
"""Why a place of a list cannot be served: its trajectory is not there, its window begins behind the end."""

_NO_STARTS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Request:
    """What all ranks collect; as a text, what a rank does that collects this.

    Args:
        indices: int64 `[n]`.
        columns: Of the storage.
        window: See `Shards.collect`; None for whole trajectories.
        is_split: Whether each head gets a part of its own.
    """

    indices: Tensor
    columns: tuple[str, ...]
    window: tuple[Tensor, int] | None
    is_split: bool

    @classmethod
    def of(
        cls, indices: Tensor | Sequence[int], columns: Sequence[str], window: Window | None, is_split: bool
    ) -> "Request":
        """The request of these arguments, in which lists become tensors.

        Raises:
            UsageError: if some are none.
        """
        if window is not None and not (isinstance(window, tuple | list) and len(window) == 2):
            raise UsageError(f"a window is (starts, length), not {window!r}")
        place = None if window is None else (numbers_in(window[0], "starts of windows"), window[1])
        return cls(numbers_in(indices, "indices"), tuple(columns), place, is_split)

    def __str__(self) -> str:
        indices, window = self.indices, self.window
        named = ", ".join(map(str, self.numbers.ravel()[:4].tolist())) + (", ..." if indices.numel() > 4 else "")
        words = f"collects {indices.numel()} trajectories ({named}; checksum {_checksum(indices):08x})"
        words += f" of columns {', '.join(self.columns)}"
        if window is not None:
            words += f" by windows of {window[1]} steps ({window[0].dtype}, checksum {_checksum(window[0]):08x})"
        return words + (" split over heads" if self.is_split else "")

    def __bytes__(self) -> bytes:
        """All of it, in less time than the text."""
        numbers, starts = self.numbers, self.starts
        of = numbers.shape, numbers.dtype.char, starts.shape, starts.dtype.char, self.window and self.window[1]
        return f"{self.columns} {self.is_split} {of}".encode() + numbers.tobytes() + starts.tobytes()

    @cached_property
    def numbers(self) -> Integers:
        """The indices as an array, of the same memory."""
        return self.indices.numpy()

    @cached_property
    def starts(self) -> NDArray[Any]:
        """The starts of the windows as an array, of the same memory; none for whole trajectories."""
        return _NO_STARTS if self.window is None else self.window[0].numpy()

    def check_window(self, steps: int) -> None:
        """Raise unless the window is one of trajectories of so many steps.

        Raises:
            UsageError: with what a window is.
        """
        if self.window is None:
            return
        starts, length = self.window
        is_list, count = starts.dtype in (torch.int64, torch.float64) and starts.dim() == 1, len(self.indices)
        if not is_list or len(starts) != count or not (isinstance(length, int) and 1 <= length <= steps):
            text = f"a window has starts int64 or float64 [{count}] and a length of 1 to {steps}"
            raise UsageError(f"{text}, not {starts.dtype} {list(starts.shape)} and {length}")
        if not count:
            return
        least = self.starts.min()
        if starts.dtype == torch.float64 and not 0 <= least <= self.starts.max() < 1:
            raise UsageError("starts of windows are steps (int64) or fractions from 0 to below 1 (float64)")
        if least < 0:
            raise UsageError(f"a window begins at step 0 at least, not {least}")

    def by_owner(self, ranks: int, trajectories: int) -> list[Integers]:
        """The places of the list that each rank owns, int64 `[m]`, rising, for shards of so many trajectories."""
        owners = self.numbers // trajectories
        return [(owners == rank).nonzero()[0] for rank in range(ranks)]

    def owned_by(self, rank: int, places: Integers, lengths: Integers) -> "Owned":
        """What a rank owns. The indices and the window were checked.

        Args:
            rank: One.
            places: Of the list, which it owns.
            lengths: Steps of the trajectories in its shard, int64 `[trajectories]`; 0 where there is none.
        """
        are_all = len(places) == len(self.numbers)
        local = (self.numbers if are_all else self.numbers[places]) - rank * len(lengths)
        there, here = lengths[local], None if are_all else places
        return Owned(here, local, there, self._starts_of(here, there))

    def told_by(self, rank: int, places: Integers, lengths: Integers, trajectories: int) -> "Owned":
        """What another rank owns, as `owned_by`.

        Args:
            rank: That one.
            places: Of the list, int64 `[m]`.
            lengths: Steps of the trajectories at these places, `[m]`, as that rank has told.
            trajectories: Of each shard.
        """
        return Owned(places, self.numbers[places] - rank * trajectories, lengths, self._starts_of(places, lengths))

    def _starts_of(self, places: Integers | None, lengths: Integers) -> Integers | None:
        """The first steps of the windows at these places, of trajectories of these lengths."""
        if self.window is None:
            return None
        starts, steps = self.starts if places is None else self.starts[places], self.window[1]
        if starts.dtype == np.int64:
            return starts
        return (starts * np.maximum(lengths - steps + 1, 1)).astype(np.int64)

    def first_wrong(self, owned: "Owned", lengths: Integers) -> tuple[int, int, int]:
        """The first place of the list that its owner cannot serve: kind (0 for none), place, and what there is."""
        if owned.is_gone_somewhere:
            return GONE, owned.place_of(owned.lengths == 0), int((lengths > 0).sum())
        if owned.starts is not None and np.count_nonzero(late := owned.starts >= owned.lengths):
            return PAST_THE_END, owned.place_of(late), int(owned.lengths[late][0])
        return 0, 0, 0


class Owned(NamedTuple):
    """What one rank owns of a request.

    Args:
        places: Of the list, int64 `[m]`, rising; None for all.
        local: Of the trajectories in its shard, `[m]`.
        lengths: Of the trajectories, `[m]`; 0 of one that is not there.
        starts: Of the windows, `[m]`; None for whole trajectories.
    """

    places: Integers | None
    local: Integers
    lengths: Integers
    starts: Integers | None = None

    @property
    def is_gone_somewhere(self) -> bool:
        """Whether a trajectory is not there."""
        return bool(np.count_nonzero(self.lengths) < len(self.lengths))

    def there(self) -> Tensor:
        """Those in its shard that are there, int64 `[m]` at most."""
        return torch.from_numpy(self.local[self.lengths > 0] if self.is_gone_somewhere else self.local)

    def place_of(self, marks: NDArray[np.bool_]) -> int:
        """The place of the list that is marked first in `[m]`."""
        number = int(marks.argmax())
        return number if self.places is None else int(self.places[number])

    def between(self, first: int, last: int) -> "Owned":
        """What lies at these places of the list, which are counted from the first one."""
        places, part = None, slice(first, last)
        if self.places is not None:
            places, part = between(self.places, first, last), slice(*self.places.searchsorted((first, last)))
        starts = None if self.starts is None else self.starts[part]
        return Owned(places, self.local[part], self.lengths[part], starts)

    def steps(self, most: int) -> Integers:
        """Steps that are collected of each, `[m]`; at most so many."""
        left = self.lengths if self.starts is None else self.lengths - self.starts
        return np.minimum(left, most)


def numbers_in(values: Tensor | Sequence[float], what: str) -> Tensor:
    """Values as a tensor of the host: whole numbers in a list are int64, others float64.

    Raises:
        UsageError: if they are no numbers.
    """
    try:
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
        return torch.from_numpy(array)
    except (TypeError, ValueError):
        raise UsageError(f"{what} are a tensor or a list of numbers, not {values!r}") from None


def between(places: Integers, first: int, last: int) -> Integers:
    """Those of rising places that lie before the last one and not before the first one, counted from the first one."""
    return places[slice(*places.searchsorted((first, last)))] - first


def _checksum(values: Tensor) -> int:
    return zlib.crc32(values.contiguous().numpy().data) if values.numel() else 0
