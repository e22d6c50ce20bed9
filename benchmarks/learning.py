"""Does Ant learn, and where does the time go? Trainings of five seeds in turn, each as `make train` starts it.

python benchmarks/learning.py [--seeds 1 2 3 4 5] [--seconds 120] [-o benchmarks/results/learning]

Writes FILE.json (curves and phase times) and FILE.png (return against steps and against wall time).
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import record

from gmi_drl.run.metrics import PHASES, read_metrics

COLUMNS = ("env_steps", "wall_s", "return_mean", "reward_mean", "steps_per_second")


def train(seed: int, seconds: float, folder: Path) -> dict[str, list[float]]:
    """One training; its curve by column, and its phases."""
    options = [
        "--seed",
        str(seed),
        "--iterations",
        "100000",
        "--set",
        f"time_limit_s={seconds}",
        "--run-dir",
        str(folder),
    ]
    command = [sys.executable, "-c", "from gmi_drl.cli import main; main()", "train", "--task", "ant", *options]
    subprocess.run(command, check=True)
    rows = read_metrics(folder / "metrics.jsonl")
    per_iteration = rows[0]["env_steps"]
    wall_s = 0.0
    curve: dict[str, list[float]] = {name: [] for name in (*COLUMNS, *PHASES)}
    for row in rows:
        wall_s += per_iteration / row["steps_per_second"]
        for name in curve:
            curve[name].append(wall_s if name == "wall_s" else row[name])
    return curve


def phase_table(curves: list[dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    """Median milliseconds of each phase of an iteration over all trainings, and its share of their sum."""
    medians = {name: statistics.median([value for curve in curves for value in curve[name]]) for name in PHASES}
    return {name: {"ms": 1000 * value, "share": value / sum(medians.values())} for name, value in medians.items()}


def report(curves: list[dict[str, list[float]]], phases: dict[str, dict[str, float]]) -> None:
    """What people read first."""
    for curve in curves:
        speed = statistics.median(curve["steps_per_second"])
        print(f"return {curve['return_mean'][-1]:8.1f} after {curve['env_steps'][-1]:9.0f} steps, {speed:7.0f} steps/s")
    for name, phase in phases.items():
        print(f"{name:8} {phase['ms']:8.1f} ms {phase['share']:6.1%}")


def plot(curves: list[dict[str, list[float]]], path: Path) -> None:
    """Return against environment steps and against seconds, one thin line per seed and their mean."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
    for axis, x_name, label, scale in zip(
        axes, ("env_steps", "wall_s"), ("million environment steps", "seconds of training"), (1e-6, 1.0), strict=True
    ):
        lines = []
        shortest = min(curve[x_name][-1] for curve in curves)
        grid = np.linspace(0, shortest, 100)
        for curve in curves:
            known = [i for i, value in enumerate(curve["return_mean"]) if value is not None]
            x, y = [curve[x_name][i] for i in known], [curve["return_mean"][i] for i in known]
            axis.plot(np.array(x) * scale, y, color="tab:blue", alpha=0.3, linewidth=1)
            lines.append(np.interp(grid, x, y))
        axis.plot(
            grid * scale, np.mean(lines, axis=0), color="tab:blue", linewidth=2, label=f"mean of {len(curves)} seeds"
        )
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("return of an episode")
    axes[0].legend(loc="upper left", frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Train all seeds and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--seconds", type=float, default=120.0, help="of training for each seed")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/learning"))
    options = parser.parse_args()
    before = record.machine()
    with tempfile.TemporaryDirectory() as folder:
        curves = [train(seed, options.seconds, Path(folder) / str(seed)) for seed in options.seeds]
    phases = phase_table(curves)
    report(curves, phases)
    settings: dict[str, Any] = {"task": "ant", "seeds": options.seeds, "seconds": options.seconds}
    record.write(
        options.output.with_suffix(".json"), "learning", before, settings, {"phases": phases, "curves": curves}
    )
    plot(curves, options.output.with_suffix(".png"))


if __name__ == "__main__":
    main()
