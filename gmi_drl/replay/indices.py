"""Indices of tables by numpy, on the memory of their tensors: for few numbers a call takes a third of torch's."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]


class Runs(NamedTuple):
    """Values, each another than the one before, and how often it was there in a row.

    Args:
        values: int64 `[n]`.
        counts: int64 `[n]`.
    """

    values: Integers
    counts: Integers


def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """Zeros on the CPU, every page of them taken.

    The memory is numpy's, which asks the system for large pages: rows at random places are read in 0.7 of the time.
    """
    return torch.from_numpy(np.empty(shape, dtype=torch.empty(0, dtype=dtype).numpy().dtype)).zero_()


def index_of(slots: Tensor) -> slice | Integers:
    """Slots as an index: a slice, which is copied several times as fast, if each is the one before plus 1."""
    return as_row(slots.numpy())


def as_row(values: Integers) -> slice | Integers:
    """The same of an array."""
    count = len(values)
    if not count:
        return slice(0, 0)
    first, last = values.item(0), values.item(-1)
    if last - first == count - 1 and (count < 3 or np.count_nonzero(values[1:] > values[:-1]) == count - 1):
        return slice(first, last + 1)
    return values


def index_of_slots(slots: Tensor) -> slice | Integers:
    """The same of a tensor that nobody changes any more: it is found out once, and kept with the tensor."""
    known: slice | Integers | None = getattr(slots, "known_index", None)
    if known is None:
        known = slots.known_index = index_of(slots)  # type: ignore[attr-defined]
    return known


def as_integers(values: Tensor | Integers) -> Integers:
    """Integers of any kind as an array of int64, not copied if they are."""
    if isinstance(values, Tensor):
        values = values.numpy()
    return values if values.dtype == np.int64 else values.astype(np.int64)


def runs(values: Integers) -> Runs:
    """Values `[n]` without those that are equal to the one before, and how many there were of each. n may be 0."""
    if len(values) == 1:
        return Runs(values, np.ones(1, dtype=np.int64))
    cuts = np.flatnonzero(values[1:] != values[:-1]) + 1
    if not len(cuts):
        return Runs(values[:1], np.full(min(1, len(values)), len(values)))
    edges = np.empty(len(cuts) + 2, dtype=np.int64)
    edges[0], edges[1:-1], edges[-1] = 0, cuts, len(values)
    return Runs(values[edges[:-1]], edges[1:] - edges[:-1])


def runs_of_row(index: slice, width: int) -> Runs:
    """The same of `number // width` for the numbers of a slice, which is not empty."""
    first, last = index.start // width, (index.stop - 1) // width
    if first == last:
        return Runs(np.array([first]), np.array([index.stop - index.start]))
    values = np.arange(first, last + 1)
    edges = np.arange(first, last + 2) * width
    edges[0], edges[-1] = index.start, index.stop
    return Runs(values, edges[1:] - edges[:-1])
