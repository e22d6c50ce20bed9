"""How items lie in the memory of a server: in cells of 64 bytes, so that tables have items of any structure and shape.

A stream of cells has arrays of steps, each at a multiple of its item size, and behind them the description of each item
that uses them. An item is a stretch of cells: from the first array that it uses to the end of its description. So
overlapping trajectories share arrays, which are sent and stored once (Reverb, section 3.1). A description says for each
column its type, shape and runs: how far before the end of the item arrays begin, how far apart they are, and how many.
"""

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch

from gmi_drl.replay.fields import Field, Signature

CELL_BYTES = 64
"""Of the steps that the server counts."""

CELLS = Signature((Field("cell", (CELL_BYTES // 8,), torch.int64, "cell"),))

KINDS = "biufcSU"
"""Types of numpy that arrays may have: truth values, whole and other numbers, texts of a fixed length."""

_INTEGER_BYTES = 4
_SQUEEZED = 1 << 8
_ITEM_SIZE_AT = 9


class Run(NamedTuple):
    """Arrays at equal distances: the bytes from the first one to the end of the item, their distance, their count."""

    back: int
    stride: int
    steps: int


class Column(NamedTuple):
    """A column of an item: the type and shape of its arrays, whether there is no axis of time, and where they lie."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    squeeze: bool
    runs: tuple[Run, ...]


@lru_cache(maxsize=4096)
def described(columns: tuple[Column, ...]) -> bytes:
    """The description of an item, which ends with its own size."""
    numbers: list[int] = [len(columns)]
    for dtype, shape, squeeze, runs in columns:
        numbers.append(ord(dtype.kind) | _SQUEEZED * squeeze | dtype.itemsize << _ITEM_SIZE_AT)
        numbers += [len(shape), *shape, len(runs)]
        for run in runs:
            numbers += run
    numbers.append(len(numbers) + 1)
    return struct.pack(f"<{len(numbers)}i", *numbers)


def bound(columns: Sequence[tuple[int, int]]) -> int:
    """The most bytes that a description has, of columns with so many axes and arrays."""
    return _INTEGER_BYTES * (2 + sum(3 + axes + 3 * count for axes, count in columns))


def columns_of(item: memoryview) -> tuple[Column, ...]:
    """The columns of an item, from the description at its end.

    Raises:
        ValueError: if there is none.
    """
    (count,) = struct.unpack_from("<i", item, len(item) - _INTEGER_BYTES)
    if not 2 <= count <= len(item) // _INTEGER_BYTES:
        raise ValueError("an item has no description: it was not written by Reverb's interface")
    return _read(bytes(item[len(item) - count * _INTEGER_BYTES :]))


def arrays_of(items: np.ndarray[Any, np.dtype[np.uint8]], columns: Sequence[Column]) -> list[np.ndarray[Any, Any]]:
    """The arrays of items `[B, bytes]` that have the same columns, `[B, T, *shape]`, or `[B, *shape]` if squeezed."""
    count, size = items.shape
    return [_column(items, column, count, size) for column in columns]


def description_of(items: np.ndarray[Any, np.dtype[np.uint8]], size: int) -> bytes:
    """The description of an item that has so many bytes."""
    count = int(items[size - _INTEGER_BYTES : size].view("<i4")[0])
    return items[max(0, size - count * _INTEGER_BYTES) : size].tobytes()


def _column(items: np.ndarray[Any, Any], column: Column, count: int, size: int) -> np.ndarray[Any, Any]:
    """The arrays of a column. Numpy refuses places outside the items."""
    dtype, shape, squeeze, runs = column
    inner = tuple(math.prod(shape[axis + 1 :]) * dtype.itemsize for axis in range(len(shape)))
    flat = items.reshape(-1)
    parts = []
    for back, stride, steps in runs:
        if not 0 <= back <= size or steps < 0:
            raise ValueError(f"an item of {size} bytes has arrays from {back} bytes before its end on")
        parts.append(
            np.ndarray(
                (count, steps, *shape), dtype, flat.data, offset=size - back, strides=(items.strides[0], stride, *inner)
            )
        )
    whole = np.concatenate(parts, axis=1) if len(parts) != 1 else parts[0]
    return whole[:, 0] if squeeze else whole


@lru_cache(maxsize=4096)
def _read(description: bytes) -> tuple[Column, ...]:
    numbers = list(struct.unpack(f"<{len(description) // _INTEGER_BYTES}i", description))
    columns, at = [], 1
    if numbers[0] < 1:
        raise ValueError(f"an item has a description of {numbers[0]} columns")
    try:
        for _ in range(numbers[0]):
            code, axes = numbers[at], numbers[at + 1]
            kind, item_size = chr(code & 0xFF), code >> _ITEM_SIZE_AT
            if kind not in KINDS:
                raise ValueError(f"an item has a column of the unknown type {kind!r}")
            at += 2 + axes
            shape, runs = tuple(numbers[at - axes : at]), numbers[at]
            at += 1 + 3 * runs
            found = tuple(Run(*numbers[at - 3 * (runs - run) : at - 3 * (runs - run) + 3]) for run in range(runs))
            dtype = np.dtype(f"{kind}{item_size // 4 if kind == 'U' else item_size}")
            columns.append(Column(dtype, shape, bool(code & _SQUEEZED), found))
    except (IndexError, TypeError) as error:
        raise ValueError(f"an item has a description that cannot be read: {error}") from None
    return tuple(columns)
