"""What an agent sees and does: the parts of an observation, and the kinds of numbers of an action. Pure data."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any, Literal

from gmi_drl.errors import UsageError

PartKind = Literal["vector", "image", "mask"]
NumberType = Literal["float32", "uint8"]

NUMBER_BYTES: dict[NumberType, int] = {"float32": 4, "uint8": 1}

POLICY = "policy"
"""The usual name of an observation that is one part, which is that of rsl_rl."""

_TYPES: dict[PartKind, NumberType] = {"vector": "float32", "image": "uint8", "mask": "uint8"}

ALIGNMENT = 4
"""Bytes: a part of a packed observation begins at a multiple, so that float32 numbers can be read in place."""


@dataclass(frozen=True)
class Part:
    """A named part of an observation.

    Args:
        name: Its name, in files and settings.
        shape: Of one environment: `[n]`, of an image `[C, H, W]`.
        kind: `vector` is float32. `image` is uint8, its networks divide it by 255. `mask` is uint8: 1 for each
            category of the action that is allowed, 0 for others.
        critic_alone: Whether only the value sees it, unless `obs_groups` says otherwise.
    """

    name: str
    shape: tuple[int, ...]
    kind: PartKind = "vector"
    critic_alone: bool = False

    @property
    def dtype(self) -> NumberType:
        """The type of its numbers."""
        return _TYPES[self.kind]

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return self.size * NUMBER_BYTES[self.dtype]

    def __str__(self) -> str:
        words = "numbers" if self.kind == "vector" else self.dtype
        whose = ", for the critic alone" if self.critic_alone else ""
        return f"{self.name} ({self.kind}): {' x '.join(map(str, self.shape))} {words}{whose}"


@dataclass(frozen=True)
class Observation:
    """What an agent sees: one or more parts, which travel as one tensor (`observations.parts_of` splits it).

    A single part is that tensor. Several vectors are one vector, in order. Parts of different types are one row of
    bytes: each part begins at a multiple of `ALIGNMENT`, so a part is a view of the row, and whatever carries
    observations (rollouts, channels, messages, files) carries all kinds alike.

    Raises:
        UsageError: Two parts have one name.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(f"two parts of the observation are named {', '.join(twice)}: rename one of them")

    @cached_property
    def is_packed(self) -> bool:
        """Whether a row has the bytes of parts of different types."""
        return len({part.dtype for part in self.parts}) > 1

    @property
    def dtype(self) -> NumberType:
        """The type of the tensor."""
        return "uint8" if self.is_packed else self.parts[0].dtype

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor, of one environment."""
        return self.parts[0].shape if len(self.parts) == 1 else (self._ends[-1],)

    @property
    def size(self) -> int:
        """How many numbers (packed: bytes) the tensor has for one environment."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of one observation: S of the paper's formulas."""
        return self.size * NUMBER_BYTES[self.dtype]

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each part lies in a row of several parts, in numbers of the tensor."""
        begins = (0, *self._ends)
        return {
            part.name: slice(begin, begin + (part.nbytes if self.is_packed else part.size))
            for part, begin in zip(self.parts, begins, strict=False)
        }

    @cached_property
    def vector_size(self) -> int:
        """How many numbers its vectors have together: those that are scaled."""
        return sum(part.size for part in self.parts if part.kind == "vector")

    @cached_property
    def is_vector(self) -> bool:
        """Whether the tensor is float32 numbers alone, all of which a network sees."""
        return all(part.kind == "vector" for part in self.parts)

    def of_kind(self, kind: PartKind) -> tuple[Part, ...]:
        """Its parts of a kind, in order."""
        return tuple(part for part in self.parts if part.kind == kind)

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        rounded = (-(-part.nbytes // ALIGNMENT) * ALIGNMENT for part in self.parts)
        return tuple(accumulate(rounded if self.is_packed else (part.size for part in self.parts)))

    def __str__(self) -> str:
        return ", ".join(map(str, self.parts))


@dataclass(frozen=True)
class Action:
    """What an agent does: a row of float32 numbers, first those in [-1, 1], then the chosen categories.

    Args:
        numbers: How many numbers in [-1, 1] it has.
        categories: Of how many categories each choice is one; a choice is written as its number, from 0.
    """

    numbers: int = 0
    categories: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """A: how many numbers a row has."""
        return self.numbers + len(self.categories)

    @property
    def params(self) -> int:
        """P: how many numbers a network gives for its distribution: a mean for each number, a logit for each category.

        As many random numbers draw an action.
        """
        return self.numbers + sum(self.categories)

    @property
    def nbytes(self) -> int:
        """Bytes of one action: A of the paper's formulas."""
        return self.size * NUMBER_BYTES["float32"]

    def __str__(self) -> str:
        numbers = [f"{self.numbers} numbers"] if self.numbers else []
        choices = [f"one of {', of '.join(map(str, self.categories))}"] if self.categories else []
        return " and ".join([*numbers, *choices])


def group_kinds(observation: Observation) -> dict[str, PartKind]:
    """The groups that rsl_rl gets of an observation, with their kinds: each part but masks, or the whole as `POLICY`.

    Of vectors alone the whole is a group besides, unless the critic alone sees one of them.
    """
    parts: dict[str, PartKind] = {part.name: part.kind for part in observation.parts if part.kind != "mask"}
    if len(observation.parts) == 1:
        return dict.fromkeys([POLICY], observation.parts[0].kind)
    is_whole = (
        observation.is_vector and POLICY not in parts and not any(part.critic_alone for part in observation.parts)
    )
    return {POLICY: "vector", **parts} if is_whole else parts


def vector(size: int, name: str = POLICY) -> Observation:
    """An observation that is one vector."""
    return Observation((Part(name, (size,)),))


def image(*shape: int, name: str = POLICY) -> Observation:
    """An observation that is one image `[C, H, W]`."""
    return Observation((Part(name, shape, "image"),))


def continuous(size: int) -> Action:
    """Actions of numbers in [-1, 1]."""
    return Action(size)


def categorical(*sizes: int) -> Action:
    """Actions that choose among categories: gymnasium's Discrete (one size) and MultiDiscrete (several)."""
    return Action(0, sizes)


def to_json(space: Observation | Action) -> Any:
    """A space as data of JSON; `observation_of` and `action_of` read it."""
    if isinstance(space, Action):
        return asdict(space)
    parts = [asdict(part) for part in space.parts]
    return [part if part.pop("critic_alone") is False else {**part, "critic_alone": True} for part in parts]


def observation_of(parts: Sequence[dict[str, Any]]) -> Observation:
    """The observation that `to_json` has written."""
    return Observation(tuple(Part(**part | {"shape": tuple(part["shape"])}) for part in parts))


def action_of(data: dict[str, Any]) -> Action:
    """The action that `to_json` has written."""
    return Action(data["numbers"], tuple(data["categories"]))


def difference(before: Observation, now: Observation) -> str:
    """How two observations differ, part by part; empty if they are equal."""
    old, new = ({part.name: part for part in one.parts} for one in (before, now))
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    words = [f"{old.get(name, f'no {name}')}, now {new.get(name, f'no {name}')}" for name in names]
    return "; ".join(words) or ("" if before == now else "its parts have another order")
