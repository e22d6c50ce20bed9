"""Trainings on one GPU, one after the other, each once: their speed, and how an Ant learns in 50 s.

    python gpu_trainings.py run FILE [NAME ...]     appends a line of JSON for each, to be run in an empty folder
    python gpu_trainings.py tell FILE

Speeds are medians over the last three quarters of the iterations.
"""

import argparse
import json
import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from stages import PROGRAMS

from gmi_drl.benchmarks.machine import Watch

GYMNASIUM = "--task gymnasium:Ant-v5"
ANT = "--task ant --set physics=warp"
RUNS = {
    "gymnasium, 1 GMI": f"{GYMNASIUM} --gmis-per-gpu 1 --num-env 256 --backend process --iterations 8",
    "gymnasium, 16 GMIs": f"{GYMNASIUM} --gmis-per-gpu 16 --num-env 16 --backend process --iterations 40",
    "gymnasium, 16 GMIs by MPS": f"{GYMNASIUM} --gmis-per-gpu 16 --num-env 16 --backend mps --iterations 40",
    "gymnasium, 8 GMIs by MPS": f"{GYMNASIUM} --gmis-per-gpu 8 --num-env 32 --backend mps --iterations 30",
    "ppo": f"{ANT} --algo ppo --gmis-per-gpu 1 --num-env 8192 --iterations 25",
    "rsl_rl": f"{ANT} --algo rsl_rl --gmis-per-gpu 1 --num-env 8192 --iterations 25",
    "replicas": f"{ANT} --backend mps --gmis-per-gpu 4 --num-env 512 --iterations 40 --set checkpoint_every=5",
    "gru": f"{ANT} --gmis-per-gpu 1 --num-env 2048 --iterations 30 --set learner.memory=gru",
    "sac": f"{ANT} --algo sac --gmis-per-gpu 1 --num-env 512 --iterations 60",
    "learns": f"{ANT} --gmis-per-gpu 1 --num-env 4096 --iterations 99999 --set time_limit_s=50",
}
"""The arguments of `gmi-drl train`, by name."""
PHASES = ("sim_s", "act_s", "learn_s", "sync_s")
CURVE = 40
"""Points of a curve at most."""
LIMIT_S = 300.0


def main() -> None:
    """Run trainings, or print the results of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "tell"])
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RUNS))
    given = parser.parse_args()
    if given.what == "tell":
        print(told([json.loads(line) for line in given.file.read_text().splitlines()]))
        return
    for name in given.names or RUNS:
        with given.file.resolve().open("a") as file:
            file.write(json.dumps(trained(name)) + "\n")


def trained(name: str) -> dict[str, Any]:
    """Run a training. Returns what is kept of it."""
    watch, folder = Watch(), Path(name.replace(" ", "_").replace(",", ""))
    command = [*PROGRAMS["gmi-drl"], "train", *shlex.split(RUNS[name]), "--run-dir", str(folder)]
    subprocess.run(command, check=True, timeout=LIMIT_S)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return summary(name, rows) | {"machine": watch.machine().model_dump(mode="json")}


def summary(name: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Speed, phases and return of a training's rows, and the curve of its returns."""
    rows = [row for row in rows if "steps_per_second" in row]
    late = rows[len(rows) // 4 :]
    return {
        "name": name,
        "command": f"gmi-drl train {RUNS[name]}",
        "iterations": len(rows),
        "steps_per_second": round(median(row["steps_per_second"] for row in late)),
        "phases": {phase: round(median(row[phase] for row in late), 4) for phase in PHASES},
        "return_mean": rows[-1].get("return_mean"),
        "curve": curve(rows),
    }


def curve(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, float, float | None]]:
    """Steps, seconds of iterations, and mean return of finished episodes, at most `CURVE` times."""
    points, seconds, before = [], 0.0, 0
    for row in rows:
        seconds += (row["env_steps"] - before) / row["steps_per_second"]
        before = row["env_steps"]
        points.append((before, round(seconds, 2), row.get("return_mean")))
    stride = max(1, -(-len(points) // CURVE))
    return points[stride - 1 :: stride]


def told(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of trainings, the ratios of those that belong together, and the curve of `learns`."""
    head = f"{'training':<28}{'steps/s':>10}{'simulate':>10}{'act':>10}{'learn':>10}{'wait':>10}"
    lines = [head]
    for row in rows:
        phases = "".join(f"{1e3 * row['phases'][phase]:>7.1f} ms" for phase in PHASES)
        lines.append(f"{row['name']:<28}{row['steps_per_second']:>10,}{phases}")
    speed = {row["name"]: row["steps_per_second"] for row in rows}
    pairs = (
        ("gymnasium, 16 GMIs by MPS", "gymnasium, 1 GMI"),
        ("gymnasium, 16 GMIs by MPS", "gymnasium, 16 GMIs"),
        ("gymnasium, 8 GMIs by MPS", "gymnasium, 1 GMI"),
        ("gymnasium, 16 GMIs", "gymnasium, 1 GMI"),
        ("ppo", "rsl_rl"),
    )
    lines += [
        "",
        *(
            f"{one}, against {other}: {speed[one] / speed[other]:.2f} times"
            for one, other in pairs
            if {one, other} <= speed.keys()
        ),
    ]
    points = next((row["curve"] for row in rows if row["name"] == "learns"), [])
    lines += ["", "learns: steps, seconds, mean return"]
    lines += [f"{steps:>12,}{seconds:>8.1f}{mean:>10.0f}" for steps, seconds, mean in points[::4] if mean is not None]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
