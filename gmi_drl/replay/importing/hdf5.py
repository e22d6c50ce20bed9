"""HDF5 files, by h5py: what is in them is read as arrays, and mistakes are named with the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmi_drl.errors import MachineError, UsageError

Group = Any
"""A group of h5py, which has no types."""


@contextmanager
def opened(path: Path) -> Iterator[Group]:
    """Open a file to read it.

    Raises:
        UsageError: if it is no HDF5 file, or it is broken.
        MachineError: if h5py is not installed.
    """
    try:
        import h5py
    except ImportError:
        raise MachineError(f"{path}: HDF5 is read by h5py: pip install 'gmi-drl[offline]'") from None
    with reported(str(path)), h5py.File(path, "r") as file:
        yield file


@contextmanager
def reported(place: str) -> Iterator[None]:
    """What h5py raises is a `UsageError` with this place."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, MemoryError) as error:
        told = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{place}: cannot be read as HDF5: {told}") from None


def names_in(group: Group) -> list[str]:
    """The names of what is in a group; those that are no text are left out."""
    return [name for name in group if isinstance(name, str)]


def tree_in(node: Group) -> Any:
    """A dataset as an array; a group as a dict by name, `_index_0` and so on of a tuple as `0`, in their order."""
    if hasattr(node, "shape"):
        return array_of(node)
    names = {name.removeprefix("_index_"): name for name in names_in(node)}
    if all(short != name and short.isdecimal() for short, name in names.items()):
        names = dict(sorted(names.items(), key=lambda item: int(item[0])))
    return {short: tree_in(node[name]) for short, name in names.items()}


def array_of(dataset: Group) -> NDArray[Any]:
    """A dataset as an array.

    Raises:
        UsageError: if it has no numbers.
    """
    if not hasattr(dataset, "shape") or dataset.shape is None:
        raise UsageError(f"{dataset.name} is no array")
    if dataset.dtype.kind not in "biuf":
        raise UsageError(f"{dataset.name} has {dataset.dtype}, not numbers")
    if dataset.nbytes > MOST_BYTES:
        raise UsageError(f"{dataset.name} claims {dataset.nbytes} bytes, {MOST_BYTES} at most are read at once")
    return np.asarray(dataset[()])


MOST_BYTES = 2**36
"""Of one array: a file that was altered may claim any number."""
