"""gymnasium's spaces as ours: the parts of observations, and how rows of actions become the simulator's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.workload.observations import pack
from gmi_drl.workload.spaces import Action, Observation, Part

ALONE = "policy"
"""The name of an observation without parts of its own."""

MASK = "action_mask"
"""The name by which PettingZoo and others tell which categories are allowed."""

SUPPORTED = "supported are Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these"


@dataclass(frozen=True)
class Leaf:
    """A space that has no others within it.

    Args:
        path: The keys that lead to it; of a Tuple its places.
        space: The space itself. Every library has its own classes, so they are told apart by name.
        channels: Of an image, whether its `first` or `last` dimension is that of channels; None: see `_channels_first`.
    """

    path: tuple[Any, ...]
    space: Any
    channels: str | None = None

    @property
    def name(self) -> str:
        """The path as text."""
        return "/".join(map(str, self.path)) or ALONE

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self.space).__name__

    @property
    def is_mask(self) -> bool:
        """Whether its name is that of a mask."""
        return self.path[-1:] == (MASK,)

    def value_of(self, infos: Any, env: int) -> Any:
        """Its value in one environment, from the infos of all: mappings of arrays, or arrays of what is no array."""
        nested, is_of_env = infos, False
        for key in self.path:
            if not is_of_env and isinstance(nested, np.ndarray):
                nested, is_of_env = nested[env], True
            nested = nested[key]
        return nested if is_of_env else nested[env]

    def value(self, nested: Any) -> Any:
        """Its value within the value of the whole space."""
        for key in self.path:
            nested = nested[key]
        return nested


def leaves(space: Any, path: tuple[Any, ...] = ()) -> Iterator[Leaf]:
    """The leaves of a space, in order."""
    inner = None if type(space).__name__ == "OneOf" else getattr(space, "spaces", None)
    if isinstance(inner, Mapping):
        for key, one in inner.items():
            yield from leaves(one, (*path, key))
    elif isinstance(inner, tuple | list):
        for number, one in enumerate(inner):
            yield from leaves(one, (*path, number))
    else:
        yield Leaf(path, space)


class ObservationSpace:
    """How the observations of a simulator become our tensor.

    Args:
        task: The task's name, for messages.
        space: Of one environment.
        channels: Whether the `first` or the `last` dimension of an image is that of channels; None: it is guessed.

    Raises:
        UsageError: A leaf is of a kind that is not supported, or a mask is one number; its path is named.
    """

    def __init__(self, task: str, space: Any, channels: str | None = None) -> None:
        self._leaves = [replace(leaf, channels=channels) for leaf in leaves(space)]
        if mistakes := [f"{leaf.name} is {leaf.space}" for leaf in self._leaves if not _is_observable(leaf)]:
            raise UsageError(f"{task}: of its observations {', '.join(mistakes)}: {SUPPORTED}")
        if single := [f"{leaf.name} is {leaf.space}" for leaf in self._leaves if leaf.is_mask and not leaf.space.shape]:
            need = "a mask has a 0 or 1 for each category, as MultiBinary has: make it one, or rename it"
            raise UsageError(f"{task}: of its observations {', '.join(single)}: {need}")
        self.observation = Observation(tuple(_part(leaf) for leaf in self._leaves))

    def tensor(self, nested: Any, device: torch.device) -> Tensor:
        """A copy on the device of the observations of N environments, `[N, *shape]`."""
        return self._packed([leaf.value(nested) for leaf in self._leaves], device)

    def tensor_of(self, infos: Any, envs: Sequence[int], device: torch.device) -> Tensor:
        """The same of the observations of some environments, from what gymnasium merges out of their infos."""
        values = [np.stack([leaf.value_of(infos, env) for env in envs]) for leaf in self._leaves]
        return self._packed(values, device)

    def _packed(self, values: Sequence[Any], device: torch.device) -> Tensor:
        converted = [_converted(leaf, value, device) for leaf, value in zip(self._leaves, values, strict=True)]
        return pack(dict(zip((leaf.name for leaf in self._leaves), converted, strict=True)), self.observation)


class ActionSpace:
    """How our rows of actions become the actions of a simulator: first all numbers, then all choices.

    Args:
        task: The task's name, for messages.
        space: Of one environment.

    Attributes:
        low: Least value of each number, float32 `[C]`.
        high: Greatest value of each number.

    Raises:
        UsageError: A leaf is of a kind that is not supported; its path is named.
    """

    def __init__(self, task: str, space: Any) -> None:
        self._space, self._leaves = space, list(leaves(space))
        if mistakes := [f"{leaf.name} is {leaf.space}" for leaf in self._leaves if _choices(leaf) is None]:
            raise UsageError(f"{task}: of its actions {', '.join(mistakes)}: {SUPPORTED}")
        boxes = [leaf.space for leaf in self._leaves if leaf.kind == "Box"]
        categories = tuple(size for leaf in self._leaves for size in _choices(leaf) or ())
        self.action = Action(sum(prod(box.shape) for box in boxes), categories)
        self._columns = [(leaf, *_columns(leaf)) for leaf in self._leaves]
        self.low, self.high = (
            torch.cat([_bound(getattr(box, side), box.shape) for box in boxes] or [torch.zeros(0)])
            for side in ("low", "high")
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of `low` and `high`."""
        return (self.action.numbers,)

    def nested(self, rows: Tensor) -> Any:
        """The actions of N environments for the simulator, from rows `[N, A]` scaled to the bounds.

        A box of whole numbers gets the nearest ones.
        """
        host, at = rows.cpu().numpy(), [0, self.action.numbers]
        values = {}
        for leaf, size, start in self._columns:
            is_choice, space = start is not None, leaf.space
            first = at[is_choice]
            part = host[:, first : first + size]
            at[is_choice] += size
            if start is None:
                numbers = part.reshape(len(host), *space.shape)
                values[leaf.path] = _within(numbers, space) if space.dtype.kind == "f" else _nearest(numbers, space)
            else:
                values[leaf.path] = _shaped(part.astype(space.dtype) + start, space)
        return _rebuilt(self._space, values)


def _within(numbers: Any, box: Any) -> Any:
    """Numbers within the bounds of a box: rounding may exceed one slightly, which some simulators refuse."""
    return np.clip(numbers.astype(box.dtype), box.low, box.high)


def _nearest(numbers: Any, box: Any) -> Any:
    """The nearest whole numbers within the bounds of a box."""
    high = box.high.astype(np.float64)
    if box.dtype.kind in "iu":  # the largest number of 64 bits is no float, and the next one is too large
        bits = 8 * box.dtype.itemsize - (box.dtype.kind == "i")
        high = np.minimum(high, np.nextafter(2.0**bits, 0))
    return np.clip(np.rint(numbers.astype(np.float64)), box.low.astype(np.float64), high).astype(box.dtype)


def _is_observable(leaf: Leaf) -> bool:
    return leaf.kind in ("Box", "Discrete", "MultiDiscrete", "MultiBinary")


def _is_image(leaf: Leaf) -> bool:
    return leaf.kind == "Box" and len(leaf.space.shape) == 3 and leaf.space.dtype in (np.uint8, np.bool_)


def _part(leaf: Leaf) -> Part:
    space = leaf.space
    if leaf.is_mask:
        return Part(leaf.name, (prod(space.shape),), "mask")
    if _is_image(leaf):
        shape = space.shape if _channels_first(leaf) else (space.shape[2], *space.shape[:2])
        return Part(leaf.name, tuple(shape), "image")
    return Part(leaf.name, (sum(_widths(space)) if _widths(space) else prod(space.shape),))


def _channels_first(leaf: Leaf) -> bool:
    """Whether the first of an image's three dimensions is that of channels.

    If it is not said: of two equal neighbours, which are height and width, the other one; else the smaller one.
    """
    if leaf.channels is not None:
        return leaf.channels == "first"
    first, middle, last = leaf.space.shape
    return bool(middle == last if (first == middle) != (middle == last) else first <= last)


def _widths(space: Any) -> tuple[int, ...]:
    """How many categories each entry of a discrete observation has; empty for others."""
    if type(space).__name__ == "Discrete":
        return (int(space.n),)
    return tuple(map(int, np.ravel(space.nvec))) if type(space).__name__ == "MultiDiscrete" else ()


def _choices(leaf: Leaf) -> tuple[int, ...] | None:
    """The sizes of the choices of an action; None if it is not supported."""
    if leaf.kind == "MultiBinary":
        return tuple([2] * prod(leaf.space.shape))
    if leaf.kind in ("Box", "Discrete", "MultiDiscrete"):
        return _widths(leaf.space)
    return None


def _columns(leaf: Leaf) -> tuple[int, Any]:
    """How many columns of our rows an action takes, and the values of its first categories; None if it has none."""
    space = leaf.space
    if leaf.kind == "Box":
        return prod(space.shape), None
    return len(_choices(leaf) or ()), np.ravel(np.asarray(getattr(space, "start", 0), space.dtype))


def _converted(leaf: Leaf, array: Any, device: torch.device) -> Tensor:
    """A copy of a leaf's values `[N, ...]`, in the form of its part."""
    values = np.asarray(array)
    if leaf.is_mask:
        return torch.from_numpy(values).to(device, torch.uint8, copy=True).flatten(1)
    if _is_image(leaf):
        image = torch.from_numpy(values) if _channels_first(leaf) else torch.from_numpy(values).movedim(3, 1)
        copied = image.to(device, torch.uint8, copy=True, memory_format=torch.contiguous_format)
        return copied.mul_(255) if values.dtype == np.bool_ else copied
    if widths := _widths(leaf.space):
        start = np.ravel(getattr(leaf.space, "start", 0))
        rows = torch.from_numpy(values.reshape(len(values), -1) - start).long()
        hot = [torch.nn.functional.one_hot(rows[:, i], width) for i, width in enumerate(widths)]
        return torch.cat(hot, 1).to(device, torch.float32)
    return torch.from_numpy(values).to(device, torch.float32, copy=True).reshape(len(values), -1)


def _bound(bound: Any, shape: tuple[int, ...]) -> Tensor:
    return torch.as_tensor(bound, dtype=torch.float32).expand(shape).flatten()


def _shaped(chosen: Any, space: Any) -> Any:
    return chosen.reshape(len(chosen), *space.shape) if space.shape else chosen[:, 0]


def _rebuilt(space: Any, values: Mapping[tuple[Any, ...], Any], path: tuple[Any, ...] = ()) -> Any:
    """The values of leaves, nested as the space is."""
    inner = getattr(space, "spaces", None)
    if isinstance(inner, Mapping):
        return {key: _rebuilt(one, values, (*path, key)) for key, one in inner.items()}
    if isinstance(inner, tuple | list):
        return tuple(_rebuilt(one, values, (*path, number)) for number, one in enumerate(inner))
    return values[path]
