"""How much of the bare physics' speed is left in a whole Ant step? One thread, one core, interleaved.

    python benchmarks/physics.py [--num-env 512] [--pairs 7] [--steps 40] [-o FILE.json]

Each pair times the same actions on three sides, step by step in turn: `task` is `Task.step` (with all that it does);
`bare` is `mujoco.batch.Batch.step` with the same model, substeps and outputs, refreshed to the velocity stage;
`bare_lean` leaves out that refresh, which the Ant does not need, so it does exactly the physics that the task does.
Fallen worlds of the bare sides start anew, untimed, because contacts decide what a step costs.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import record
import torch
from mujoco import batch

from gmi_drl.tasks import make
from gmi_drl.tasks.ant import ANT, FALLEN_HEIGHT_M

WARM_UP_STEPS = 150
Side = Callable[[torch.Tensor], float]


def task_side(num_env: int) -> Side:
    """Seconds of one `Task.step`."""
    task = make("ant", num_env=num_env)

    def step(action: torch.Tensor) -> float:
        start = time.perf_counter()
        task.step(action)
        return time.perf_counter() - start

    return step


def bare_side(num_env: int, stage: int) -> Side:
    """Seconds of one `Batch.step`, the copy of the controls included."""
    worlds = batch.Batch(mujoco.MjModel.from_xml_string(ANT.build_mjcf()), num_env, nthread=1)
    views = {name: worlds.bind(name) for name in (*ANT.fields, "ctrl")}

    def step(action: torch.Tensor) -> float:
        start = time.perf_counter()
        views["ctrl"][:] = action.numpy()
        worlds.step(nstep=ANT.substeps, stage=stage)
        seconds = time.perf_counter() - start
        fallen = views["qpos"][:, 2] < FALLEN_HEIGHT_M
        if fallen.any():
            worlds.reset(fallen, stage=0)
        return seconds

    return step


def measure(num_env: int, pairs: int, steps: int) -> dict[str, list[float]]:
    """Steps per second of each side in each pair."""
    stages = {name: int(getattr(mujoco.mjtStage, f"mjSTAGE_{name}").value) for name in ("NONE", "VEL")}
    sides = {
        "task": task_side(num_env),
        "bare": bare_side(num_env, stages["VEL"]),
        "bare_lean": bare_side(num_env, stages["NONE"]),
    }
    generator = torch.Generator().manual_seed(0)
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for pair in range(-1, pairs):
        count = WARM_UP_STEPS if pair < 0 else steps
        actions = 2 * torch.rand(count, num_env, ANT.spec.num_actions, generator=generator) - 1
        order = list(sides) if pair % 2 else list(reversed(sides))
        seconds = dict.fromkeys(sides, 0.0)
        for action in actions:
            for name in order:
                seconds[name] += sides[name](action)
        if pair >= 0:
            for name in sides:
                speeds[name].append(count * num_env / seconds[name])
    return speeds


def report(speeds: dict[str, list[float]]) -> dict[str, Any]:
    """Medians and ratios, printed and returned."""
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    ratios = {
        name: [task / bare for task, bare in zip(speeds["task"], speeds[name], strict=True)]
        for name in speeds
        if name != "task"
    }
    for name, median in medians.items():
        print(f"{name:>10}: {median:8.0f} steps/s")
    for name, values in ratios.items():
        shown = " ".join(f"{ratio:.2f}" for ratio in values)
        print(f"task / {name:<9}: median {statistics.median(values):.3f}  of {shown}")
    return {"steps_per_second": speeds, "median_steps_per_second": medians, "ratios": ratios}


def main() -> None:
    """Measure on the first core that this process may use."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-env", type=int, default=512)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=40, help="steps of each side in each pair")
    parser.add_argument("-o", "--output", type=Path, help="write the numbers as JSON")
    options = parser.parse_args()
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    settings = {"num_env": options.num_env, "pairs": options.pairs, "steps": options.steps, "core": core, "threads": 1}
    before = record.machine()
    results = report(measure(options.num_env, options.pairs, options.steps))
    if options.output:
        record.write(options.output, "physics", before, settings, results)


if __name__ == "__main__":
    main()
