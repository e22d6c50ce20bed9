"""When a structured writer makes an item of a pattern."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from gmi_drl.replay.reverb.nest import Nest, flatten, unflatten_as

STEP_INDEX, STEPS_SINCE_APPLIED, IS_END_EPISODE, DATA = "step_index", "steps_since_applied", "is_end_episode", "data"


@dataclass(frozen=True)
class Comparison:
    """A condition.

    Args:
        left: What is compared: a name above.
        source: Of `DATA` the number of the field.
        mod: It is taken modulo this before; None for as it is.
        at_least: Whether it is compared by >=, not by ==.
        right: With what.
        inverse: Whether the opposite must hold.
    """

    left: str
    source: int = 0
    mod: int | None = None
    at_least: bool = False
    right: int = 0
    inverse: bool = False

    def __post_init__(self) -> None:
        if self.mod is not None and self.mod < 1:
            raise ValueError(f"a condition takes a value modulo 1 or more, not {self.mod}")
        if self.mod is not None and self.right < 0:
            raise ValueError(f"a condition compares a remainder with 0 or more, not {self.right}")

    def holds(self, value: int) -> bool:
        """Whether it holds for a value."""
        value = value if self.mod is None else value % self.mod
        return self.inverse != (value >= self.right if self.at_least else value == self.right)


class Comparable:
    """Something that comparisons turn into a condition. Conditions are no truth values, and it cannot be hashed."""

    def __init__(self, left: str, source: int = 0, mod: int | None = None) -> None:
        self._left, self._source, self._mod = left, source, mod

    def __mod__(self, mod: int) -> "Comparable":
        return Comparable(self._left, self._source, mod)

    def __eq__(self, right: Any) -> Comparison:  # type: ignore[override]
        return Comparison(self._left, self._source, self._mod, right=int(right))

    def __ne__(self, right: Any) -> Comparison:  # type: ignore[override]
        return Comparison(self._left, self._source, self._mod, right=int(right), inverse=True)

    def __ge__(self, right: int) -> Comparison:
        return Comparison(self._left, self._source, self._mod, at_least=True, right=int(right))

    def __gt__(self, right: int) -> Comparison:
        return self >= int(right) + 1

    def __lt__(self, right: int) -> Comparison:
        return dataclasses.replace(self >= right, inverse=True)

    def __le__(self, right: int) -> Comparison:
        return dataclasses.replace(self > right, inverse=True)

    __hash__ = None  # type: ignore[assignment]


class Condition:
    """What conditions are made of: `Condition.step_index() % 4 == 0`."""

    @staticmethod
    def step_index() -> Comparable:
        """The number of the last step in its episode, from 0."""
        return Comparable(STEP_INDEX)

    @staticmethod
    def steps_since_applied() -> Comparable:
        """Steps since the config made an item, or since the beginning."""
        return Comparable(STEPS_SINCE_APPLIED)

    @staticmethod
    def is_end_episode() -> Comparison:
        """Holds in `end_episode` alone."""
        return Comparison(IS_END_EPISODE, right=1)

    @staticmethod
    def data(step_structure: Nest) -> Nest:
        """For each field of a step its value, which must be a whole number or a truth value."""
        fields = range(len(flatten(step_structure)))
        return unflatten_as(step_structure, [Comparable(DATA, field) for field in fields])
