"""Registries: parts that a layout or configuration names, ours and those of other packages' entry points."""

from collections.abc import Collection, Iterable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, Protocol, TypeVar

from gmi_drl.errors import GmiError, MachineError, UsageError, did_you_mean


class Named(Protocol):
    """An entry of a registry: pure data, which says where the code is."""

    @property
    def name(self) -> str:
        """The name in files."""


Entry = TypeVar("Entry", bound=Named)


class Registry(Generic[Entry]):
    """All entries of one kind, by name. Looking one up imports only the entry, not its code.

    Args:
        what: The kind, for errors.
        group: The group of entry points of other packages: `NAME = "module:ENTRY"`.
        own: The entries of this package.

    Attributes:
        own: The entries of this package.
    """

    def __init__(self, what: str, group: str, own: Iterable[Entry]) -> None:
        self._what, self._group = what, group
        self._own = {entry.name: entry for entry in own}
        self.own = tuple(self._own.values())

    @property
    def names(self) -> list[str]:
        """The names of all entries, ours first."""
        return [*self._own, *sorted(entry_points(group=self._group).names - self._own.keys())]

    def usable(self) -> list[Entry]:
        """All entries except those whose package is broken."""
        found: list[Entry] = []
        for name in self.names:
            with suppress(MachineError):
                found.append(self.find(name))
        return found

    def find(self, name: str, beside: Collection[str] = ()) -> Entry:
        """The entry of this name.

        Args:
            name: The name in files and options.
            beside: Other names that are allowed there, for the error.

        Raises:
            UsageError: if there is none, with the nearest name.
            MachineError: if its package cannot be imported, or its entry has another name.
        """
        if name in self._own:
            return self._own[name]
        for entry_point in entry_points(group=self._group, name=name):
            try:
                entry: Entry = entry_point.load()
                named = entry.name
            except Exception as error:  # third-party code
                raise MachineError(f"{self._what} {name}: {entry_point.value} cannot be imported: {error}") from error
            if named != name:
                text = f"{entry_point.value} is the {self._what} {named!r}: the entry point must have its name"
                raise MachineError(f"{self._what} {name}: {text}")
            return entry
        raise UsageError(f"there is no {self._what} {name!r}{did_you_mean(name, [*self.names, *beside])}")


def class_at(location: str) -> Any:
    """Import the class (or function) at `module:class`.

    Raises:
        MachineError: if it cannot be imported.
    """
    module, _, name = location.partition(":")
    try:
        return getattr(import_module(module), name)
    except GmiError:  # it has a message for users
        raise
    except Exception as error:  # third-party code
        raise MachineError(f"{location} cannot be imported: {error}") from error
