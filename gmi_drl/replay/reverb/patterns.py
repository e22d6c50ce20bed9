"""Patterns: which steps of which fields become a trajectory, in which table, and with which priority."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmi_drl.replay.reverb.conditions import Comparison
from gmi_drl.replay.reverb.nest import Nest, flatten, flatten_with_path, structure_of, unflatten_as
from gmi_drl.replay.reverb.specs import TensorSpec


@dataclass(frozen=True)
class PatternNode:
    """A column of a pattern, in steps from the end: -1 is the last one.

    Args:
        source: The number of the field.
        start: The first step; None for the single step `stop`, without an axis of time.
        stop: The step behind the last one; None for the end.
        step: The distance of two steps; None for 1.

    Raises:
        ValueError: if these are no steps before the end.
    """

    source: int
    start: int | None
    stop: int | None
    step: int | None

    def __post_init__(self) -> None:
        start, stop, step = self.start, self.stop, self.step
        if start is None and stop is None:
            raise ValueError("At least one of `start` and `stop` must be specified.")
        if start is not None and start >= 0:
            raise ValueError(f"`start` must be < 0 but got {start}.")
        if stop is not None and (stop > 0 or (stop == 0 and start is None)):
            raise ValueError(f"`stop` must be before the end but got {stop}.")
        if start is not None and stop is not None and start >= stop:
            raise ValueError(f"`stop` ({stop}) must be > `start` ({start}) when both are specified.")
        if step is not None and (start is None or step <= 0):
            raise ValueError(f"`step` ({step}) must be > 0, and goes with `start`.")

    @property
    def age(self) -> int:
        """How far before the end its first step is."""
        return -(self.start if self.start is not None else self.stop or 0)

    @property
    def is_squeezed(self) -> bool:
        """Whether it has no axis of time."""
        return self.start is None

    @property
    def steps(self) -> range:
        """Its steps, from the end."""
        if self.start is None:
            return range(-self.age, 1 - self.age)
        return range(self.start, self.stop or 0, self.step or 1)


class ReferenceField:
    """A field of a reference step: an index or a slice makes a column of a pattern."""

    def __init__(self, source: int) -> None:
        self._source = source

    def __getitem__(self, key: int | slice) -> PatternNode:
        if isinstance(key, int):
            key = slice(key)
        if not isinstance(key, slice):
            raise ValueError(f"Key must be int or slice but got {key} (type {type(key)}).")
        return PatternNode(self._source, key.start, key.stop, key.step)


@dataclass(frozen=True)
class Priority:
    """The priority of items.

    Args:
        value: Of all; None to compute it from errors of a field, w x their largest + (1 - w) x their mean (Kapturowski
            et al. 2019, section 2.3).
        max_priority_weight: w.
        source: The number of the field.
    """

    value: float | None = None
    max_priority_weight: float = 0.0
    source: int = -1

    def of(self, columns: Sequence[tuple[PatternNode, Sequence[np.ndarray[Any, Any]]]]) -> float:
        """The priority of an item with these columns.

        Raises:
            ValueError: if it has no errors, or they are no numbers.
        """
        if self.value is not None:
            return self.value
        found = [arrays for node, arrays in columns if node.source == self.source]
        if not found or any(array.size != 1 or array.dtype.kind not in "if" for array in found[-1]):
            raise ValueError(f"TD Error expects a number in field {self.source} of each step of the pattern")
        errors = np.abs(np.array([array.item() for array in found[-1]]))
        return float(self.max_priority_weight * errors.max() + (1 - self.max_priority_weight) * errors.mean())


@dataclass(frozen=True)
class Config:
    """What items a structured writer makes.

    Args:
        pattern: A nest of columns.
        table: By name.
        priority: Of the items.
        conditions: All must hold.

    Raises:
        ValueError: if there is no column or table.
    """

    pattern: Nest
    table: str
    priority: Priority
    conditions: tuple[Comparison, ...]

    def __post_init__(self) -> None:
        if not self.flat or not self.table:
            raise ValueError(f"a config has 1 column at least, and a table, not {self.pattern} and {self.table!r}")

    @property
    def flat(self) -> list[PatternNode]:
        """The columns, in order."""
        return flatten(self.pattern)

    @property
    def age(self) -> int:
        """Steps that it needs."""
        return max(node.age for node in self.flat)


def create_reference_step(step_structure: Nest) -> Nest:
    """A step of this structure whose fields make columns: `step["a"][-2:]`."""
    return unflatten_as(step_structure, [ReferenceField(field) for field in range(len(flatten(step_structure)))])


def pattern_from_transform(step_structure: Nest, transform: Callable[[Nest], Nest]) -> Nest:
    """The pattern that a function makes of a reference step."""
    return transform(create_reference_step(step_structure))


def create_config(
    pattern: Nest, table: str, conditions: Sequence[Comparison] = (), priority: Priority | None = None
) -> Config:
    """What items a structured writer makes; without a priority theirs is 1."""
    return Config(pattern, table, priority or constant_priority_fn(1.0), tuple(conditions))


def unpack_pattern(config: Config) -> Nest:
    """The pattern of a config."""
    return config.pattern


def constant_priority_fn(value: float) -> Priority:
    """The same priority for all items."""
    return Priority(value)


def td_error(
    max_priority_weight: float, step_structure: Nest, get_field_from_step_fn: Callable[[Nest], Any]
) -> Priority:
    """A priority from the errors in a field of the steps, which the pattern has.

    Args:
        max_priority_weight: The weight of the largest error; the mean has the rest.
        step_structure: Of the steps.
        get_field_from_step_fn: Returns the field of a step.
    """
    numbered = unflatten_as(step_structure, list(range(len(flatten(step_structure)))))
    return Priority(None, max_priority_weight, get_field_from_step_fn(numbered))


def infer_signature(configs: Sequence[Config], step_spec: Nest) -> Nest:
    """The signature of the table that gets the items of these configs.

    Args:
        configs: All of one table.
        step_spec: A nest of anything with shape and type, as the steps.

    Raises:
        ValueError: if there is none, or they do not go together, with what differs.
    """
    if not configs:
        raise ValueError("At least one config must be provided.")
    paths = [path for path, _ in flatten_with_path(configs[0].pattern)]
    if any(structure_of(config.pattern) != structure_of(configs[0].pattern) for config in configs):
        raise ValueError("All configs must have exactly the same pattern_structure.")
    if len(tables := sorted({config.table for config in configs})) > 1:
        text = "All configs must target the same table but provided configs included"
        raise ValueError(f"{text} {', '.join(tables)}.")
    fields = flatten(step_spec)
    rows = zip(*(config.flat for config in configs), strict=True)
    specs = [_merged(path, nodes, fields) for path, nodes in zip(paths, rows, strict=True)]
    return unflatten_as(configs[0].pattern, specs)


def _merged(path: tuple[str | int, ...], nodes: Sequence[PatternNode], fields: Sequence[Any]) -> TensorSpec:
    """The spec of a column that these nodes make."""
    dtypes = [np.dtype(fields[node.source].dtype) for node in nodes]
    if len(set(dtypes)) > 1:
        raise ValueError(f"Configs produce trajectories with multiple dtypes at {path}. Got {dtypes}.")
    shapes = [(*(() if node.is_squeezed else (len(node.steps),)), *tuple(fields[node.source].shape)) for node in nodes]
    if len({(len(shape), shape[1:]) for shape in shapes}) > 1:
        raise ValueError(f"Configs produce trajectories with incompatible shapes at {path}. Got {shapes}.")
    shape = shapes[0] if len(set(shapes)) == 1 else (None, *shapes[0][1:])
    return TensorSpec(shape, dtypes[0], "/".join(map(str, path)))
