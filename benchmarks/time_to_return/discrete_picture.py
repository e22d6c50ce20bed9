"""Pictures of trainings: for each task, returns over steps and over CPU seconds, a line per seed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from discrete_tables import recent
from matplotlib.figure import Figure
from resumable import Run
from trainings import Settings

COLORS = tuple(f"C{number}" for number in range(10))
"""Of the sides in their order: matplotlib's own."""

COLUMNS = 4
"""Of the legend, at most."""

AXES = {"environment steps": 0, "CPU seconds": 1}
"""The label of an axis, and its place in an update."""

DPI = 130


def draw(path: Path, tasks: Mapping[str, Settings], sides: Sequence[str], trained: Sequence[Run]) -> None:
    """Draw all tasks that have runs into a PNG file."""
    shown = [task for task in tasks if any(run["task"] == task for run in trained)]
    colors = dict(zip(sides, COLORS[: len(sides)], strict=True))
    figure = Figure(figsize=(11, 3.4 * len(shown)), layout="constrained")
    for row, task in zip(figure.subplots(len(shown), len(AXES), squeeze=False), shown, strict=True):
        for axis, (label, place) in zip(row, AXES.items(), strict=True):
            _draw_task(axis, [run for run in trained if run["task"] == task], place, colors)
            if tasks[task].threshold is not None:
                axis.axhline(tasks[task].threshold, color="gray", linestyle=":")
            axis.set(title=task, xlabel=label, ylabel="return of an episode")
            axis.grid(alpha=0.3)
    found = {line.get_label(): line for axis in figure.axes for line in axis.lines}
    lines = {side: found[side] for side in sides if side in found}
    figure.legend(lines.values(), lines, loc="outside upper center", ncols=min(len(sides), COLUMNS), frameon=False)
    figure.savefig(path, dpi=DPI)


def _draw_task(axis: Any, trained: list[Run], place: int, colors: Mapping[str, str]) -> None:
    for run in trained:
        dots = [
            (update[place], mean) for update, mean in zip(run["updates"], recent(run), strict=True) if mean is not None
        ]
        if dots:
            axis.plot(*zip(*dots, strict=True), color=colors[run["side"]], alpha=0.6, linewidth=1, label=run["side"])
