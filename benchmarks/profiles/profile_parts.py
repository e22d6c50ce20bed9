"""Sums up Python's profile by parts of the code.

cProfile makes each call slower, so many small calls look worse than few large ones: compare shares only; without the
profiler the sums are less.
"""

import cProfile
import pstats
from collections.abc import Mapping
from pathlib import Path

Parts = Mapping[str, tuple[str, ...]]
"""The parts: a function belongs to one if its file or name contains one of these texts."""

Told = dict[str, float]


def parts_of(profile: cProfile.Profile, parts: Parts, count: int) -> Told:
    """Seconds by part per round, of each function's own time; time that belongs to no part is the rest."""
    told = dict.fromkeys((*parts, "rest"), 0.0)
    for (file, _, name), (_, _, own_s, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        text = f"{Path(file).name} ({name})"
        told[next((part for part, marks in parts.items() if any(mark in text for mark in marks)), "rest")] += (
            own_s / count
        )
    return told


def table(head: str, told: Mapping[str, Told]) -> str:
    """A table with a line per column of parts, in microseconds, and their sum."""
    first = next(iter(told.values()))
    widths = [max(11, len(name) + 2) for name in (*first, "all")]
    size = max(map(len, (head, *told))) + 2
    lines = [
        f"{head:<{size}}" + "".join(f"{name:>{width}}" for name, width in zip((*first, "all"), widths, strict=True))
    ]
    for name, parts in told.items():
        values = (*parts.values(), sum(parts.values()))
        lines.append(
            f"{name:<{size}}"
            + "".join(f"{1e6 * value:>{width}.0f}" for value, width in zip(values, widths, strict=True))
        )
    return "\n".join(lines) + "\n"
