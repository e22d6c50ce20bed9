"""Which item of a table is sampled or removed next: the selectors of Reverb by their names."""

import copy
from collections.abc import Mapping
from typing import Any

from gmi_drl.replay.selectors import Fifo, Lifo, MaxHeap, MinHeap, Prioritized, Selector, Uniform

__all__ = ["Fifo", "Lifo", "MaxHeap", "MinHeap", "Options", "Prioritized", "Selector", "Uniform", "fresh", "options_of"]


class Options:
    """What a selector is, in the fields of Reverb's message: one of them is set.

    Attributes:
        fifo, lifo, uniform: Whether it is that.
        prioritized: With `priority_exponent`.
        heap: With `min_heap`.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fifo = self.lifo = self.uniform = False
        self.prioritized: Any = Settings()
        self.heap: Any = Settings()
        self.name = next(iter(fields), "")
        for name, value in fields.items():
            setattr(self, name, Settings(**value) if isinstance(value, Mapping) else value)

    def HasField(self, name: str) -> bool:  # noqa: N802 - Reverb's name
        """Whether it is the selector of this name."""
        return name == self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Options({self.name})"


class Settings:
    """The settings of a selector, by name."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).items()))


def options_of(selector: Selector) -> dict[str, Any]:
    """The one field of `Options` that is set for a selector, as JSON."""
    if isinstance(selector, MinHeap):
        return {"heap": {"min_heap": not isinstance(selector, MaxHeap)}}
    if isinstance(selector, Prioritized):
        return {"prioritized": {"priority_exponent": selector.exponent}}
    return {type(selector).__name__.lower(): True}


def fresh(selector: Selector) -> Selector:
    """A selector of the same settings for another table."""
    return copy.copy(selector)
