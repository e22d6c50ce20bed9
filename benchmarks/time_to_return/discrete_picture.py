"""The picture of `discrete_tasks.py draw`: for each task, returns over steps and over CPU seconds, a line per seed."""

from pathlib import Path
from typing import Any

from discrete_tables import recent
from discrete_tasks import SIDES, TASKS, runs
from matplotlib.figure import Figure

COLORS = dict(zip(SIDES, ("tab:blue", "tab:orange", "tab:green"), strict=True))
AXES = {"environment steps": 0, "CPU seconds": 1}
"""The label of an axis, and its place in an update."""

DPI = 130


def draw(path: Path) -> None:
    """Draw all tasks that have runs into a PNG file."""
    trained = runs("learn")
    tasks = [task for task in TASKS if any(run["task"] == task for run in trained)]
    figure = Figure(figsize=(11, 3.4 * len(tasks)), layout="constrained")
    for row, task in zip(figure.subplots(len(tasks), len(AXES), squeeze=False), tasks, strict=True):
        for axis, (label, place) in zip(row, AXES.items(), strict=True):
            _draw_task(axis, [run for run in trained if run["task"] == task], place)
            axis.axhline(TASKS[task].threshold, color="gray", linestyle=":")
            axis.set(title=task, xlabel=label, ylabel="return of an episode")
            axis.grid(alpha=0.3)
    lines = {line.get_label(): line for axis in figure.axes for line in axis.lines if line.get_label() in SIDES}
    figure.legend(lines.values(), lines, loc="outside upper center", ncols=len(SIDES), frameon=False)
    figure.savefig(path, dpi=DPI)


def _draw_task(axis: Any, trained: list[dict[str, Any]], place: int) -> None:
    for run in trained:
        dots = [
            (update[place], mean) for update, mean in zip(run["updates"], recent(run), strict=True) if mean is not None
        ]
        axis.plot(*zip(*dots, strict=True), color=COLORS[run["side"]], alpha=0.6, linewidth=1, label=run["side"])
