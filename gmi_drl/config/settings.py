"""What each setting of a configuration does in a run that goes on, and when it does nothing: data at its field."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import BaseModel


@dataclass(frozen=True)
class Setting:
    """Stands at a field of a configuration: `gamma: Annotated[Fraction, LIVE] = 0.99`.

    Args:
        fixed: Why a run cannot go on with another value; None: another value counts from the next iteration on.
        only_with: Another field of the same section, and the value without which this field has no effect.
        adapts: Whether a run may change this value by itself, so that what it began with does not come back.
        idle: Why the field never has an effect; None: it has one.
        inner: Where the field is a mapping, what its keys do.
        others: What the keys do that `inner` does not name.
    """

    fixed: str | None = None
    only_with: tuple[str, object] | None = None
    adapts: bool = False
    idle: str | None = None
    inner: Mapping[str, "Setting"] = field(default_factory=dict)
    others: "Setting | None" = None

    @property
    def effect(self) -> str:
        """In words, for people."""
        if self.idle:
            return f"refused by --set: {self.idle}"
        kept = f"refused: {self.fixed}" if self.fixed else "counts from the next iteration on"
        if self.adapts:
            kept += "; what the run began with is refused once it has adapted it"
        return kept + (f"; refused without {_named(self.only_with)}" if self.only_with else "")


LIVE = Setting()
NETWORKS = Setting(fixed="its networks cannot go on as others")
BEGINNING = Setting(fixed="only a new run begins with it")
RUN = Setting(fixed="another one is another run")
LEARNING_RATE = Setting(adapts=True)


class Leaf(NamedTuple):
    """A setting in its place.

    Args:
        setting: Its mark; None where the field has none.
        value: None also where a mapping has no such key.
        beside: The section that it is in, by name.
    """

    setting: Setting | None
    value: Any
    beside: Mapping[str, Any]


def leaves(section: BaseModel, place: str = "") -> Iterator[tuple[str, Leaf]]:
    """All settings of a configuration by their place, such as `learner.gamma`."""
    beside = dict(section)
    for name, about in type(section).model_fields.items():
        mark = next((one for one in about.metadata if isinstance(one, Setting)), None)
        if isinstance(beside[name], BaseModel):
            yield from leaves(beside[name], f"{place}{name}.")
        else:
            yield from _below(f"{place}{name}", Leaf(mark, beside[name], beside))


def _below(place: str, leaf: Leaf) -> Iterator[tuple[str, Leaf]]:
    """The keys of a mapping that are told apart, or the setting itself."""
    if leaf.setting is None or not leaf.setting.inner:
        yield place, leaf
        return
    keys = leaf.value if isinstance(leaf.value, Mapping) else {}
    for key in dict.fromkeys((*leaf.setting.inner, *keys)):
        mark = leaf.setting.inner.get(key, leaf.setting.others)
        yield from _below(f"{place}.{key}", Leaf(mark, keys.get(key), keys))


def places_of(given: Mapping[str, Any]) -> list[str]:
    """The places of what is given, also within mappings: `{"a.b": {"c": 1}}` is `a.b.c`."""
    places = []
    for key, value in given.items():
        inner = {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, dict) else {}
        places += places_of(inner) or [key]
    return places


def refused_changes(before: BaseModel, now: BaseModel, given: Iterable[str], adapted: str | None = None) -> list[str]:
    """Why a run cannot go on with other settings, each in a sentence; empty if it can.

    Args:
        before: The configuration of the run.
        now: With what is set anew.
        given: The places of what is set anew.
        adapted: Why a value that `adapts` would be ignored, in words; None: it is used.
    """
    old, named = dict(leaves(before)), set(given)
    refused = []
    for place, leaf in leaves(now):
        setting, was = leaf.setting or LIVE, old[place].value if place in old else None
        if setting.fixed and leaf.value != was:
            has = "another" if isinstance(was, Mapping) else _text(was)
            refused.append(f"{place}: the run has {has}: {setting.fixed}")
        if adapted and setting.adapts and place in named:
            refused.append(f"{place}: {adapted}: leave it out, or give another value")
    return refused


def without_effect(config: BaseModel, given: Iterable[str]) -> list[str]:
    """What is set without any effect, each in a sentence; empty if all has one.

    Args:
        config: With the settings.
        given: Their places; one that is deeper than a setting belongs to it.
    """
    named, idle = list(given), []
    for place, leaf in leaves(config):
        if leaf.setting is None or not any(f"{one}.".startswith(f"{place}.") for one in named):
            continue
        if leaf.setting.idle:
            idle.append(f"{place}: {leaf.setting.idle}")
        if leaf.setting.only_with and not _holds(leaf.setting.only_with, leaf):
            idle.append(f"{place} has no effect without {_named(leaf.setting.only_with)}")
    return idle


def _holds(condition: tuple[str, object], leaf: Leaf) -> bool:
    """Whether the field beside a setting has that value, which a mapping that does not name it has."""
    return bool(leaf.beside.get(condition[0], condition[1]) == condition[1])


def _named(condition: tuple[str, object] | None) -> str:
    return "" if condition is None else f"{condition[0]} {_text(condition[1])}"


def _text(value: object) -> str:
    """As a file has it, about."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value) if isinstance(value, tuple) else value)
