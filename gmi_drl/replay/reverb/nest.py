"""Nested structures as dm-tree sees them: dicts in the order of their sorted keys, lists, tuples and named tuples."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Nest: TypeAlias = Any
"""A leaf, or a dict, list or tuple of nests."""

Path = tuple[str | int, ...]
"""Keys and indices from the whole to a leaf."""


def is_nest(nest: Nest) -> bool:
    """Whether it is no leaf."""
    return isinstance(nest, (dict, list, tuple)) or (hasattr(nest, "keys") and isinstance(nest, Mapping))


def flatten(nest: Nest) -> list[Any]:
    """The leaves, in order."""
    if not is_nest(nest):
        return [nest]
    if type(nest) is list and not any(map(is_nest, nest)):
        return nest
    if type(nest) is dict and not any(map(is_nest, nest.values())):
        return [nest[key] for key in sorted(nest)]
    return [leaf for child in _children(nest).values() for leaf in flatten(child)]


def flatten_with_path(nest: Nest, path: Path = ()) -> list[tuple[Path, Any]]:
    """The leaves with their paths, in order."""
    if not is_nest(nest):
        return [(path, nest)]
    if type(nest) is dict and not any(map(is_nest, nest.values())):
        return [((*path, key), nest[key]) for key in sorted(nest)]
    return [pair for key, child in _children(nest).items() for pair in flatten_with_path(child, (*path, key))]


def unflatten_as(structure: Nest, leaves: Sequence[Any]) -> Nest:
    """The nest of this structure whose leaves these are.

    Raises:
        ValueError: if there are more or fewer.
    """
    left = iter(leaves)
    try:
        built = _build(structure, left)
    except StopIteration:
        built = left = None  # type: ignore[assignment]
    if left is None or next(left, left) is not left:
        raise ValueError(f"the structure has {len(flatten(structure))} leaves, {len(leaves)} are given")
    return built


def map_structure(function: Callable[..., Any], *nests: Nest) -> Nest:
    """The nest of what a function returns for the leaves of nests with the same structure.

    Raises:
        ValueError: if the structures differ.
    """
    flat = [flatten_with_path(nest) for nest in nests]
    if any([path for path, _ in one] != [path for path, _ in flat[0]] for one in flat):
        raise ValueError(f"structures differ: {', '.join(str(structure_of(nest)) for nest in nests)}")
    return unflatten_as(nests[0], [function(*(leaf for _, leaf in row)) for row in zip(*flat, strict=True)])


def structure_of(nest: Nest) -> Nest:
    """The structure: None for each leaf."""
    return unflatten_as(nest, [None] * len(flatten(nest)))


def union(first: Nest, second: Nest) -> Nest:
    """A structure that has the leaves of both. Leaves of the first stay; a named tuple has no further fields."""
    if not is_nest(first) or not is_nest(second):
        return first if first is not None else second
    ours, theirs = _children(first), _children(second)
    merged = {
        key: union(ours[key], theirs[key]) if key in ours and key in theirs else child
        for key, child in (theirs | ours).items()
    }
    return _like(first, merged)


def _children(nest: Nest) -> dict[Any, Nest]:
    if isinstance(nest, Mapping):
        return {key: nest[key] for key in sorted(nest)}
    if hasattr(nest, "_fields"):
        return dict(zip(nest._fields, nest, strict=True))
    return dict(enumerate(nest))


def _build(structure: Nest, left: Iterator[Any]) -> Nest:
    if not is_nest(structure):
        return next(left)
    return _like(structure, {key: _build(child, left) for key, child in _children(structure).items()})


def _like(nest: Nest, children: Mapping[Any, Nest]) -> Nest:
    """A nest of the same type with other children."""
    if isinstance(nest, Mapping):
        return {key: children[key] for key in (*nest, *(key for key in children if key not in nest))}
    if hasattr(nest, "_fields"):
        return type(nest)(**children)
    values = [children[key] for key in sorted(children)]
    return values if isinstance(nest, list) else tuple(values)
