"""Signatures of tables: nested specs of shapes and types. Those of TensorFlow, dm_env and jax will do, too."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from gmi_drl.replay.reverb.nest import Nest, flatten_with_path, map_structure


class TensorSpec:
    """What an array of a trajectory is.

    Args:
        shape: None for a size that may be any.
        dtype: A type of numpy.
        name: For people.
    """

    def __init__(self, shape: Sequence[int | None], dtype: Any, name: str | None = None) -> None:
        self.shape, self.name = tuple(None if size is None else int(size) for size in shape), name
        self.dtype = np.dtype(getattr(dtype, "as_numpy_dtype", dtype))

    def __eq__(self, other: object) -> bool:
        try:
            theirs = spec_of(other)
        except ValueError:
            return NotImplemented
        return self.shape == theirs.shape and self.dtype == theirs.dtype

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype.name})"

    def takes(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
        """Whether an array is what this says."""
        return (
            dtype == self.dtype
            and len(shape) == len(self.shape)
            and all(wanted in (None, size) for wanted, size in zip(self.shape, shape, strict=True))
        )


def spec_of(leaf: Any) -> TensorSpec:
    """The spec of something with a shape and a type.

    Raises:
        ValueError: if it has none.
    """
    if isinstance(leaf, TensorSpec):
        return leaf
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        raise ValueError(f"Unsupported signature spec: {leaf!r}")
    return TensorSpec(tuple(leaf.shape), leaf.dtype, getattr(leaf, "name", None))


def specs_of(signature: Nest) -> Nest:
    """A signature with specs of ours."""
    return map_structure(spec_of, signature)


def to_json(signature: Nest) -> str:
    """A signature of our specs as JSON. Keys of dicts are texts or numbers."""
    return json.dumps(_described(signature))


def from_json(text: str) -> Nest:
    """Read what `to_json` wrote. Named tuples are tuples."""
    return _read(json.loads(text))


def differences(signature: Nest, columns: Sequence[Any]) -> str | None:
    """What of an item is not as its table says.

    Args:
        signature: Of the table.
        columns: Anything with shape and type, in the order of the signature's leaves.

    Returns:
        All differences in one line; None if there are none.
    """
    wanted = flatten_with_path(signature)
    if len(wanted) != len(columns):
        return f"it has {len(columns)} columns, the table's signature {len(wanted)}"
    wrong = [
        f"{'/'.join(map(str, path)) or 'it'} is {column.dtype}{list(column.shape)}, the table's signature {spec}"
        for (path, spec), column in zip(wanted, columns, strict=True)
        if not spec.takes(tuple(column.shape), column.dtype)
    ]
    return "; ".join(wrong) or None


def _described(nest: Nest) -> Any:
    if isinstance(nest, dict):
        return {"dict": [[key, _described(child)] for key, child in nest.items()]}
    if isinstance(nest, list | tuple):
        return {"list" if isinstance(nest, list) else "tuple": [_described(child) for child in nest]}
    return {"shape": nest.shape, "dtype": nest.dtype.str, "name": nest.name}


def _read(read: Any) -> Nest:
    if "dict" in read:
        return {key: _read(child) for key, child in read["dict"]}
    if "list" in read:
        return [_read(child) for child in read["list"]]
    if "tuple" in read:
        return tuple(_read(child) for child in read["tuple"])
    return TensorSpec(read["shape"], read["dtype"], read["name"])
