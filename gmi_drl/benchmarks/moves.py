"""Code that was moved or renamed since a commit, read from `benchmarks/moves.txt`, the oldest move first.

A line has two words, the old and the new place. Places are files, `gmi_drl/a.py gmi_drl/b/c.py`, or names that a module
defines at its first level, `gmi_drl.a:Old gmi_drl.b:New`: a renamed class, or a function that moved. Each line uses the
names that were valid just before it, and is committed together with its move. So the lines in a commit's own table are
those that had happened by then.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gmi_drl.errors import MachineError

TABLE = "benchmarks/moves.txt"

Place = tuple[str, str]
"""A module and one of its names; the empty name for the whole module."""


@dataclass(frozen=True)
class Moves:
    """Moves and renames as pairs of old and new place, the oldest first."""

    lines: tuple[tuple[Place, Place], ...] = ()

    def now(self, module: str, name: str = "") -> Place:
        """The place of a name of a module, or of a whole module, after all moves."""
        place = (module, name)
        for old, new in self.lines:
            if place == old:
                place = new
            elif not old[1] and place[0] == old[0]:
                place = (new[0], place[1])
        return place

    def modules(self, module: str) -> set[str]:
        """The modules that have a module's code after all moves: several if some of its names were moved."""
        found = {module}
        for (old, name), (new, _) in self.lines:
            if old in found:
                found |= {new}
                found -= set() if name else {old}
        return found


def moves_since(then: Mapping[str, str], now: Mapping[str, str]) -> Moves:
    """The moves that the table of `now` has and that of `then` has not.

    Args:
        then: The contents of a commit's files, by their paths.
        now: Those of the checkout.

    Raises:
        MachineError: if a line of the table is not two places of one kind.
    """
    known = _lines(then)
    return Moves(tuple(_parsed(line) for line in _lines(now) if line not in known))


def module_of(path: str) -> str:
    """The name of the module in a file; for other files, the path itself."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") if path.endswith(".py") else path


def _lines(files: Mapping[str, str]) -> Collection[str]:
    lines = (" ".join(line.split()) for line in files.get(TABLE, "").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _parsed(line: str) -> tuple[Place, Place]:
    words = line.split()
    if len(words) != 2 or (":" in words[0]) != (":" in words[1]):
        raise MachineError(f"{TABLE}: {line!r} is not an old and a new place: give two files, or two MODULE:NAME")
    old, new = (tuple(word.split(":", 1)) if ":" in word else (module_of(word), "") for word in words)
    return (old[0], old[1]), (new[0], new[1])
