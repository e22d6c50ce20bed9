"""One picture per result: all samples with their medians, or curves if the samples have them. Needs extra [plots]."""

import statistics
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmi_drl.benchmarks.case import CURVES, DOUBLINGS
from gmi_drl.benchmarks.result import SAME, Result, SampleRecord
from gmi_drl.benchmarks.statistics import ends, ends_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRID_POINTS = 50
DPI = 130
COLUMNS = 3
"""Panels side by side."""

_HUES = ("blue", "orange", "green", "red", "purple", "brown", "pink", "gray", "olive", "cyan")
COLORS = tuple(f"tab:{hue}" for hue in _HUES)


def plot(result: Result, path: Path) -> None:
    """Draw a result into a PNG file.

    Raises:
        ImportError: without matplotlib.
    """
    draw(result).savefig(path, dpi=DPI)


def draw(result: Result) -> "Figure":
    """Draw the picture of a result. Raises ImportError without matplotlib."""
    from matplotlib.figure import Figure

    has_curves = all(CURVES in sample.details for column in result.samples.values() for sample in column)
    figure = Figure(layout="constrained")
    if has_curves:
        _draw_curves(figure, result)
    else:
        _draw_samples(figure, result)
    return figure


def draw_panels(results: Mapping[str, Result]) -> "Figure":
    """Draw the first curve of each result in a panel with its name. Raises ImportError without matplotlib."""
    from matplotlib.figure import Figure

    rows = ceil(len(results) / COLUMNS)
    figure = Figure(figsize=(3.6 * COLUMNS, 2.7 * rows), layout="constrained")
    axes = figure.subplots(rows, COLUMNS, squeeze=False).flat
    for (name, result), axis in zip(results.items(), axes, strict=False):
        (side, column), *_ = result.samples.items()
        x_label, *_, y_label = column[0].details[CURVES]
        _draw_side(axis, column, x_label, y_label, COLORS[0], side)
        axis.set_title(f"{name}, {len(column)} seeds", fontsize="medium")
        axis.set(xlabel=x_label, ylabel=y_label)
        axis.grid(alpha=0.3)
    for axis in axes:  # empty panels
        axis.remove()
    return figure


def _draw_samples(figure: Any, result: Result) -> None:
    """Draw a row of dots per side with a bar at the median. The axis begins at zero, so that lengths compare."""
    from matplotlib.ticker import EngFormatter

    figure.set_size_inches(8, 0.9 + 0.5 * len(result.samples))
    axis = figure.subplots()
    for row, (name, column) in enumerate(result.samples.items()):
        color = COLORS[row % len(COLORS)]
        axis.plot([sample.value for sample in column], [row] * len(column), "o", color=color, alpha=0.4)
        axis.plot([result.summaries[name].median], [row], "|", color=color, markersize=26, markeredgewidth=2.5)
    ratios = {name: f"\n{ratio.median:.2f}x" for name, ratio in result.ratios.items()}
    ratios |= {name: f"\n{SAME}" for name in result.same}
    axis.set_yticks(range(len(result.samples)), [name + ratios.get(name, "") for name in result.samples])
    axis.set_ylim(len(result.samples) - 0.5, -0.5)
    axis.set_xlim(left=min(0.0, axis.get_xlim()[0]))
    better = "lower" if result.case.lower_is_better else "higher"
    ratio = "; 2.00x: ours is twice as good" if result.ratios else ""
    axis.set_xlabel(f"{result.case.unit}, {better} is better; bars are medians{ratio}")
    if result.case.unit == "s":
        axis.xaxis.set_major_formatter(EngFormatter(unit="s"))
    axis.set_title(result.case.name, loc="left", fontsize="medium")
    axis.grid(axis="x", alpha=0.3)


def _draw_curves(figure: Any, result: Result) -> None:
    """Draw the last label against each of the others: each side's samples, their mean, and its interval or range."""
    *x_labels, y_label = next(iter(result.samples.values()))[0].details[CURVES]
    figure.set_size_inches(4.5 * len(x_labels), 3.4 + 0.2 * ceil(len(result.samples) / (2 * len(x_labels))))
    axes = figure.subplots(1, len(x_labels), sharey=True, squeeze=False)[0]
    for axis, x_label in zip(axes, x_labels, strict=True):
        for row, (name, column) in enumerate(result.samples.items()):
            _draw_side(axis, column, x_label, y_label, COLORS[row % len(COLORS)], name)
        axis.set_xlabel(x_label.removesuffix(DOUBLINGS).strip())
        if x_label.endswith(DOUBLINGS):
            axis.set_xscale("log", base=2)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel(y_label)
    handles, names = axes[0].get_legend_handles_labels()
    repeats = result.settings.repeats
    title = f"mean of {repeats} samples with its {ends_of(repeats)}"
    figure.legend(handles, names, title=title, loc="outside upper center", ncols=2 * len(axes), frameon=False)


def _draw_side(axis: Any, column: tuple[SampleRecord, ...], x_label: str, y_label: str, color: str, label: str) -> None:
    """Draw a thin line per sample, and the mean with a band over the part that all samples cover.

    The mean is at the samples' own points if these are the same for all, else on a grid.
    """
    import numpy as np

    curves = [(sample.details[CURVES][x_label], sample.details[CURVES][y_label]) for sample in column]
    for x, y in curves:
        axis.plot(x, y, color=color, alpha=0.25, linewidth=0.8)
    points = curves[0][0]
    span = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    grid = np.array(points) if all(x == points for x, _ in curves) else np.linspace(*span, GRID_POINTS)
    heights = np.transpose([np.interp(grid, x, y) for x, y in curves])  # [GRID_POINTS, samples]
    low, high = zip(*(ends(row, of=statistics.fmean) for row in heights.tolist()), strict=True)
    axis.fill_between(grid, low, high, color=color, alpha=0.2, linewidth=0)
    axis.plot(grid, heights.mean(1), color=color, linewidth=2, label=label)
