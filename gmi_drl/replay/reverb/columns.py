"""What a writer remembers of each column, and columns of trajectories made from it."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from gmi_drl.replay.reverb.layout import KINDS

Array = np.ndarray[Any, np.dtype[Any]]


class Cell:
    """One array of one step.

    Args:
        array: Its own copy.

    Attributes:
        place: Its first byte in the stream of the writer; -1 if it is not there yet.
        expired: Whether the history has forgotten it.
    """

    __slots__ = ("array", "expired", "place")

    def __init__(self, array: Array) -> None:
        self.array, self.place, self.expired = array, -1, False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the array."""
        return self.array.dtype

    def numpy(self) -> Array:
        """The array."""
        return self.array


class TrajectoryColumn:
    """A column of a trajectory: arrays of one field at any steps.

    Args:
        data_references: Cells.
        squeeze: Whether the sampler gets the single array without an axis of time.
        path: Where it comes from, for messages: the label of a history and an index there.

    Raises:
        ValueError: if a step has no such field, or is forgotten, or there is not just one of a squeezed column.
    """

    def __init__(
        self, data_references: Sequence[Cell | None], *, squeeze: bool = False, path: tuple[str, Any] | None = None
    ) -> None:
        if squeeze and len(data_references) != 1:
            raise ValueError(f"a squeezed column has one data reference, not {len(data_references)}")
        if None in data_references:
            where = f"{path[0]}[{path[1]}]: " if path else ""
            places = [place for place, cell in enumerate(data_references) if cell is None]
            raise ValueError(f"{where}TrajectoryColumns cannot contain any None data references, as at {places}")
        self.cells: tuple[Cell, ...] = tuple(data_references)  # type: ignore[arg-type]
        self.is_squeezed = squeeze

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __getitem__(self, key: int | slice | list[int]) -> "TrajectoryColumn":
        if isinstance(key, int):
            return TrajectoryColumn([self.cells[key]], squeeze=True)
        if isinstance(key, slice):
            return TrajectoryColumn(self.cells[key])
        if isinstance(key, list):
            return TrajectoryColumn([self.cells[one] for one in key])
        raise TypeError(f"TrajectoryColumn indices must be integers, slices or lists, not {type(key)}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what the sampler gets."""
        return self.cells[0].shape if self.is_squeezed else (len(self.cells), *self.cells[0].shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what the sampler gets."""
        return self.cells[0].dtype

    def numpy(self) -> Array:
        """What the sampler gets.

        Raises:
            RuntimeError: if the history has forgotten a step.
        """
        if any(cell.expired for cell in self.cells):
            raise RuntimeError("Cannot convert TrajectoryColumn with expired data references to numpy array.")
        return self.cells[0].numpy() if self.is_squeezed else np.stack([cell.numpy() for cell in self.cells])


class ColumnHistory:
    """The last cells of a field, with None where a step lacks it.

    Args:
        label: Of the field, for messages.
        size: Steps that it remembers.
        padding: Steps that were before its first one.
    """

    def __init__(self, label: str, size: int, padding: int = 0) -> None:
        self.label, self.size = label, size
        self._cells: list[Cell | None] = [None] * min(size, padding)
        self._forgotten = padding - len(self._cells)
        self._spec: tuple[np.dtype[Any], tuple[int, ...]] | None = None

    def taken(self, value: Any) -> Array:
        """A copy of a value as an array of this field, whose type and shape are those of the first one.

        Raises:
            ValueError: if it has another one, or is no array of numbers or texts of a fixed length.
        """
        array = np.array(value.detach().cpu().numpy() if isinstance(value, Tensor) else value)
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if self._spec is None:
            if array.dtype.kind not in KINDS:
                raise ValueError(f"{self.label}: arrays of {array.dtype} cannot be stored: take numbers, bool or texts")
            self._spec = array.dtype, array.shape
        dtype, shape = self._spec
        if array.dtype != dtype:
            text = f"Tensor of wrong dtype provided for column {self.label}"
            raise ValueError(f"{text}. Got {_name(array.dtype)} but expected {_name(dtype)}.")
        if array.shape != shape:
            text = f"Tensor of incompatible shape provided for column {self.label}"
            raise ValueError(f"{text}. Got {_sizes(array.shape)} which is incompatible with {_sizes(shape)}.")
        return array

    def append(self, cell: Cell | None) -> None:
        """Remember a step."""
        self._cells.append(cell)
        if len(self._cells) > self.size:
            self._forget(1)

    def set_last(self, cell: Cell) -> None:
        """Fill in the last step, which lacks this field."""
        self._cells[-1] = cell

    @property
    def can_set_last(self) -> bool:
        """Whether the last step lacks this field."""
        return bool(self._cells) and self._cells[-1] is None

    def configure(self, size: int) -> None:
        """Remember another number of steps."""
        self.size = size
        self._forget(max(0, len(self._cells) - size))

    def leave_stream(self) -> None:
        """What is remembered is in no stream."""
        for cell in self._cells:
            if cell is not None:
                cell.place = -1

    def reset(self) -> None:
        """Forget all."""
        self._forget(len(self._cells))
        self._forgotten = 0

    def __len__(self) -> int:
        return len(self._cells) + self._forgotten

    def __iter__(self) -> Iterator[Cell | None]:
        return iter([*[None] * self._forgotten, *self._cells])

    def __getitem__(self, key: int | slice | list[int]) -> TrajectoryColumn:
        if isinstance(key, slice):
            return TrajectoryColumn(self._slice(key), path=(self.label, key))
        if isinstance(key, int):
            return TrajectoryColumn([self.cell(key)], squeeze=True, path=(self.label, key))
        if isinstance(key, list):
            return TrajectoryColumn([self.cell(one) for one in key], path=(self.label, key))
        raise TypeError(f"history indices must be integers, slices or lists, not {type(key)}")

    def cell(self, index: int) -> Cell | None:
        """The cell at an index, as if nothing was forgotten; None if it was, or has never been there."""
        if index >= 0:
            index -= len(self)
            if index >= 0:
                raise IndexError(f"{self.label} has {len(self)} steps")
        return self._cells[index] if index >= -len(self._cells) else None

    def _slice(self, key: slice) -> list[Cell | None]:
        """The cells of a slice; None for those before the first step, too: a short history is no short trajectory."""
        count, step = len(self._cells), key.step or 1
        if key.start is not None and key.stop is None and -count <= key.start < 0 and step == 1:
            return self._cells[key.start :]
        count += self._forgotten
        if step < 0 or (key.start is None and key.stop is None):
            return list(self)[key]
        start, stop = (-count if key.start is None else key.start), (0 if key.stop is None else key.stop)
        start = start if start < 0 else start - count
        stop = stop - count if stop >= 0 and key.stop is not None else stop
        return [self.cell(index) for index in range(start, min(stop, 0), step)]

    def _forget(self, count: int) -> None:
        for cell in self._cells[:count]:
            if cell is not None:
                cell.expired = True
        del self._cells[:count]
        self._forgotten += count


def _name(dtype: np.dtype[Any]) -> str:
    """The name of a type in dm-reverb's messages."""
    return {"float64": "double", "float32": "float", "float16": "half"}.get(dtype.name, dtype.name)


def _sizes(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"
