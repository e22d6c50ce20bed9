"""Nested steps: dicts, lists and tuples of tensors, as fields with names like `a/b/0`."""

from collections.abc import Mapping
from typing import Any, TypeAlias

Tree: TypeAlias = Any
"""A tensor, or a dict, list or tuple of trees."""

_ALONE = "value"
"""The field of a tree that is a tensor."""


def leaves_of(tree: Tree, name: str = "") -> dict[str, Any]:
    """The leaves by name, in order. `name` is that of the tree itself."""
    children = _children(tree)
    if children is None:
        return {name or _ALONE: tree}
    below = (leaves_of(child, f"{name}/{key}" if name else key) for key, child in children.items())
    return {leaf: value for leaves in below for leaf, value in leaves.items()}


def _children(tree: Tree) -> dict[str, Tree] | None:
    if isinstance(tree, Mapping):
        return {str(key): value for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return {str(index): value for index, value in enumerate(tree)}
    return None
