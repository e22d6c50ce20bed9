"""Parts that a layout or a configuration names: ours, and those that packages add by entry points."""

from collections.abc import Collection, Iterable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, Protocol, TypeVar

from gmi_drl.errors import GmiError, MachineError, UsageError, did_you_mean


class Named(Protocol):
    """An entry: pure data, which says where the code is."""

    @property
    def name(self) -> str:
        """As files have it."""


Entry = TypeVar("Entry", bound=Named)


class Registry(Generic[Entry]):
    """All entries of one kind, by name. To look one up imports nothing but the entry.

    Args:
        what: Of what kind they are, for errors.
        group: Of the entry points by which packages add theirs: `NAME = "module:ENTRY"`.
        own: Those of this package.

    Attributes:
        own: The same.
    """

    def __init__(self, what: str, group: str, own: Iterable[Entry]) -> None:
        self._what, self._group = what, group
        self._own = {entry.name: entry for entry in own}
        self.own = tuple(self._own.values())

    @property
    def names(self) -> list[str]:
        """Those that can be found, ours first."""
        return [*self._own, *sorted(entry_points(group=self._group).names - self._own.keys())]

    def usable(self) -> list[Entry]:
        """All but those whose packages are broken."""
        found: list[Entry] = []
        for name in self.names:
            with suppress(MachineError):
                found.append(self.find(name))
        return found

    def find(self, name: str, beside: Collection[str] = ()) -> Entry:
        """The entry of this name.

        Args:
            name: As files and people have it.
            beside: What else may be said in its place, for the error.

        Raises:
            UsageError: if there is none; it names the nearest.
            MachineError: if its package is there and cannot be imported, or gives an entry of another name.
        """
        if name in self._own:
            return self._own[name]
        for entry_point in entry_points(group=self._group, name=name):
            try:
                entry: Entry = entry_point.load()
                named = entry.name
            except Exception as error:  # code of others
                raise MachineError(f"{self._what} {name}: {entry_point.value} cannot be imported: {error}") from error
            if named != name:
                text = f"{entry_point.value} is the {self._what} {named!r}: the entry point must have its name"
                raise MachineError(f"{self._what} {name}: {text}")
            return entry
        raise UsageError(f"there is no {self._what} {name!r}{did_you_mean(name, [*self.names, *beside])}")


def class_at(location: str) -> Any:
    """The class at `module:class`, where an entry says that its code is.

    Raises:
        MachineError: if it cannot be imported.
    """
    module, _, name = location.partition(":")
    try:
        return getattr(import_module(module), name)
    except GmiError:  # which says what is missing
        raise
    except Exception as error:  # code of others
        raise MachineError(f"{location} cannot be imported: {error}") from error
