"""Metadata of settings: whether a resumed run may change a setting, and when it has no effect."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import BaseModel


@dataclass(frozen=True)
class Setting:
    """An annotation of a field of a configuration: `gamma: Annotated[Fraction, LIVE] = 0.99`.

    Args:
        fixed: Why a resumed run cannot have another value; None: it can, from the next iteration on.
        only_with: Another field of the same section, and the value that it must have for this field to have an effect.
        adapts: Whether a run may change this value by itself, so that the initial value does not come back.
        idle: Why the field never has an effect; None: it has one.
        inner: The settings of the keys, if the field is a mapping.
        others: The setting of keys that `inner` does not name.
    """

    fixed: str | None = None
    only_with: tuple[str, object] | None = None
    adapts: bool = False
    idle: str | None = None
    inner: Mapping[str, "Setting"] = field(default_factory=dict)
    others: "Setting | None" = None

    @property
    def effect(self) -> str:
        """A description of the setting for users."""
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
    """A setting of a configuration with its value.

    Args:
        setting: Its annotation; None if the field has none.
        value: Its value; None also if a mapping does not have the key.
        beside: All values of its section, by name.
    """

    setting: Setting | None
    value: Any
    beside: Mapping[str, Any]


def leaves(section: BaseModel, place: str = "") -> Iterator[tuple[str, Leaf]]:
    """All settings of a configuration with their keys, such as `learner.gamma`."""
    beside = dict(section)
    for name, about in type(section).model_fields.items():
        mark = next((one for one in about.metadata if isinstance(one, Setting)), None)
        if isinstance(beside[name], BaseModel):
            yield from leaves(beside[name], f"{place}{name}.")
        else:
            yield from _below(f"{place}{name}", Leaf(mark, beside[name], beside))


def _below(place: str, leaf: Leaf) -> Iterator[tuple[str, Leaf]]:
    """The keys of a mapping with `inner` settings, or else the setting itself."""
    if leaf.setting is None or not leaf.setting.inner:
        yield place, leaf
        return
    keys = leaf.value if isinstance(leaf.value, Mapping) else {}
    for key in dict.fromkeys((*leaf.setting.inner, *keys)):
        mark = leaf.setting.inner.get(key, leaf.setting.others)
        yield from _below(f"{place}.{key}", Leaf(mark, keys.get(key), keys))


def places_of(given: Mapping[str, Any]) -> list[str]:
    """The full keys of given settings, also within mappings: `{"a.b": {"c": 1}}` is `a.b.c`."""
    places = []
    for key, value in given.items():
        inner = {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, dict) else {}
        places += places_of(inner) or [key]
    return places


def refused_changes(before: BaseModel, now: BaseModel, given: Iterable[str], adapted: str | None = None) -> list[str]:
    """The sentences that say why a run cannot be resumed with other settings; empty if it can.

    Args:
        before: The configuration of the run.
        now: The configuration with new settings.
        given: The keys of the new settings.
        adapted: Why a new value of a setting that `adapts` would be ignored; None: it is used.
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
    """A sentence for each given setting that has no effect; empty if all have one.

    Args:
        config: The configuration with the settings.
        given: Their keys; a key below a setting belongs to that setting.
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
    """Whether the other field has the required value. A mapping without that key counts as having it."""
    return bool(leaf.beside.get(condition[0], condition[1]) == condition[1])


def _named(condition: tuple[str, object] | None) -> str:
    return "" if condition is None else f"{condition[0]} {_text(condition[1])}"


def _text(value: object) -> str:
    """The value roughly as in a file."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value) if isinstance(value, tuple) else value)
