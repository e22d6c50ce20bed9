"""Draws what agent and trainer do during one update of asynchronous training, from a result of table_8.

    cd benchmarks/results; python ../profiles/decoupled_picture.py table_8_anymal.json decoupled.png

Both sides are drawn by the medians of their samples. One agent and one trainer have as many rollouts as updates.
"""

import sys
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure

from gmi_drl.benchmarks.result import Result

AGENT = {"sim_s": "simulate", "act_s": "act", "fetch_s": "take a version", "wait_s": "wait for room"}
TRAINER = {"learn_s": "learn", "publish_s": "publish", "sync_s": "wait for experience"}
COLORS = ("tab:blue", "tab:orange", "tab:red", "lightgray")
DPI = 130


def draw(result: Result) -> Figure:
    """Draw a bar for agent and trainer of each side, in milliseconds."""
    figure = Figure(figsize=(9, 1.2 + 0.55 * 2 * len(result.samples)), layout="constrained")
    axis = figure.subplots()
    labels = []
    for side, samples in result.samples.items():
        for who, phases in (("agent", AGENT), ("trainer", TRAINER)):
            row, left = len(labels), 0.0
            labels.append(f"{side}, {who}")
            for (name, what), color in zip(phases.items(), COLORS, strict=False):
                width = 1000 * median(sample.details[name] for sample in samples)
                is_wait = what.startswith("wait")
                axis.barh(row, width, left=left, color="lightgray" if is_wait else color, edgecolor="white")
                if width > 4:
                    axis.text(left + width / 2, row, f"{what}\n{width:.1f}", ha="center", va="center", fontsize=7)
                left += width
    axis.set_yticks(range(len(labels)), labels)
    axis.invert_yaxis()
    axis.set_xlabel(f"ms of an update; {result.case.name}")
    return figure


def main() -> None:
    """Draw what is asked for."""
    source, target = map(Path, sys.argv[1:])
    draw(Result.model_validate_json(source.read_text())).savefig(target, dpi=DPI)


if __name__ == "__main__":
    main()
