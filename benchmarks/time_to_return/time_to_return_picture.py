"""The picture of `time_to_return.py`: a panel for each task, seconds to its goal over environments."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from time_to_return import GMIS, GOALS, GRID, NUM_ENVS, kept, middle, seconds_to_goal

from gmi_drl.layout.cut import Cut

COLORS = {1: "tab:blue", 2: "tab:orange"}
MARKS = {"steps": ("s", "most steps/s"), "learning": ("*", "learns fastest")}
DPI = 130


def draw(path: Path) -> None:
    """Draw all tasks into a PNG file."""
    figure = Figure(figsize=(11, 8), layout="constrained")
    for task, axis in zip(GOALS, figure.subplots(2, 2).flat, strict=True):
        _draw_task(axis, task)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=DPI)


def _draw_task(axis: Any, task: str) -> None:
    seconds = seconds_to_goal(task)
    for gmis in GMIS:
        cuts = [cut for cut in GRID if cut.gmis_per_gpu == gmis]
        dots = [(cut.num_env, value) for cut in cuts for value in seconds[cut] if value is not None]
        axis.plot(*zip(*dots, strict=True), "o", color=COLORS[gmis], alpha=0.35, markersize=4)
        line = [(cut.num_env, at) for cut in cuts if (at := middle(seconds[cut])) is not None]
        axis.plot(*zip(*line, strict=True), color=COLORS[gmis], label=f"{gmis} GMI{'s' * (gmis > 1)}: median of seeds")
    top = max(value for of in seconds.values() for value in of if value is not None)
    for cut in GRID:
        if seconds[cut] and middle(seconds[cut]) is None:
            axis.plot(cut.num_env, top * 1.15, "^", color=COLORS[cut.gmis_per_gpu], fillstyle="none")
    for objective, (mark, label) in MARKS.items():
        chosen = kept(task)["choices"][objective]
        cut = Cut(chosen["gmis"], chosen["num_env"])
        height = middle(seconds[cut]) or top * 1.15
        axis.plot(cut.num_env, height, mark, color="black", markersize=13, fillstyle="none", label=f"plan: {label}")
    axis.set(title=f"{task}: {GOALS[task].reward:g} for a step", xlabel="environments of each GMI", ylabel="seconds")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(NUM_ENVS, [str(num_env) for num_env in NUM_ENVS])
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(alpha=0.3)
