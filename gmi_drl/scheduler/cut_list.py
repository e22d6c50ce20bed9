"""Lists many cuts in few words."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from gmi_drl.layout.backends import PROCESS
from gmi_drl.layout.cut import Cut

Key = TypeVar("Key")
Value = TypeVar("Value")

SHORT = 2
"""Neighbours that are listed one by one; more are a range."""


def listed(cuts: Sequence[Cut], known: Iterable[Cut] = ()) -> str:
    """GMIs per device x environments, grouped, e.g. `1 x 65536; 2 to 8 x 1024 to 65536 by process and mps`.

    Args:
        cuts: What is listed.
        known: Other cuts: a range of environments has none of their numbers within.
    """
    by_division = _grouped((cut.division, cut.num_env) for cut in cuts)
    by_numbers = _grouped(((way, tuple(sorted(some))), size) for (way, size), some in by_division.items())
    alike = _grouped(((tuple(sizes), some), way) for (way, some), sizes in by_numbers.items())
    numbers = sorted({cut.num_env for cut in (*cuts, *known)})
    parts = []
    for (sizes, some), ways in alike.items():
        by = "" if ways == [PROCESS.name] else f" by {' and '.join(ways)}"
        parts.append(f"{_ranges(sizes, range(1, max(sizes) + 1))} x {_ranges(some, numbers)}{by}")
    return "; ".join(parts)


def _grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The second of each pair by the first, in the order in which they come."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _ranges(some: Iterable[int], every: Sequence[int]) -> str:
    """Numbers in words; those that follow each other in `every` as a range."""
    wanted, runs = set(some), list[list[int]]()
    for place in (place for place, number in enumerate(every) if number in wanted):
        if runs and runs[-1][-1] == place - 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    texts = [
        f"{every[run[0]]} to {every[run[-1]]}" if len(run) > SHORT else ", ".join(str(every[place]) for place in run)
        for run in runs
    ]
    return ", ".join(texts)
