"""Seconds to a fixed return beside rsl_rl, of one core: steps by many seeds, divided by the steps per second of each.

    python benchmarks/time_to_return/beside_rsl_rl.py speeds ant anymal humanoid     # minutes, on quiet cores
    python benchmarks/time_to_return/beside_rsl_rl.py tell

The trainings are those of `learning_gap.py`: as many seeds of each side, by the same settings, one process and one
thread each; their steps do not depend on the machine. For the steps per second all sides train in turns, on one core,
for 30 updates from the fourth on, when robots are untrained yet. In the same turns the environments step alone, with
random actions: what they take of an iteration no learner can save. Cores that multiply in bfloat16 also time ours with
`learner.bf16`.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, redirect_stdout
from itertools import product

from learning_gap import (
    BF16,
    NUM_ENV,
    OURS,
    RESULTS,
    STEPS,
    TASKS,
    THEIRS,
    by_ours,
    by_rsl_rl,
    runs,
)
from two_means import RESAMPLES, interval

from gmi_drl.gmi.inventory.cores import has_bf16
from gmi_drl.layout.environment import KEEP_FREED_MEMORY

FILE = RESULTS / "speeds.jsonl"
GOALS = {"ant": 2000.0, "anymal": 10.0, "humanoid": 150.0}
"""Returns of an episode, which all seeds of all sides reach."""
SMOOTH = 5
"""Updates whose mean return must be as high."""
ROUNDS, UPDATES, WARM_UP = 5, 30, 3
SIDES = (OURS, THEIRS, BF16)
ALONE, ALONE_S = "environments alone", 10.0
WANTED = 1.3
"""How many times as soon as rsl_rl's a return was to come."""


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("speeds").add_argument("task", nargs="+", choices=TASKS)
    commands.add_parser("tell")
    one = commands.add_parser("one", help="steps per second of a side, as `speeds` starts it")
    one.add_argument("task", choices=TASKS)
    one.add_argument("side", choices=(*SIDES, ALONE))
    given = parser.parse_args()
    if given.command == "speeds":
        measure(given.task)
    elif given.command == "tell":
        tell()
    else:
        with redirect_stdout(sys.stderr):  # rsl_rl prints, too
            rate = alone(given.task) if given.side == ALONE else steps_per_second(given.task, given.side)
        print(rate)


def measure(tasks: Sequence[str]) -> None:
    """Measure the steps per second of all sides in turns, and replace those of these tasks in the file."""
    found = [one for one in speeds() if one["task"] not in tasks]
    core = str(min(os.sched_getaffinity(0)))
    environment = os.environ | KEEP_FREED_MEMORY | {"OMP_NUM_THREADS": "1"}
    sides = [side for side in (*SIDES, ALONE) if side != BF16 or has_bf16()]
    for task, number, side in product(tasks, range(ROUNDS), sides):
        command = ["taskset", "-c", core, sys.executable, __file__, "one", task, side]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
        found.append({"task": task, "side": side, "round": number, "steps_per_second": float(told)})
        print(f"{task} {side}: {float(told):,.0f} steps/s", flush=True)
        FILE.write_text("".join(f"{json.dumps(one)}\n" for one in found))


def steps_per_second(task: str, side: str) -> float:
    """Train for `UPDATES` after a warm-up."""
    import torch

    from gmi_drl.config.run_config import default_config
    from gmi_drl.workload import TASK_SPECS

    torch.set_num_threads(1)
    config = default_config(TASK_SPECS[task]).model_copy(update={"seed": 1})
    ended = [row[-1] for row in (by_rsl_rl if side == THEIRS else by_ours)(task, side, config, WARM_UP + UPDATES)]
    return UPDATES * NUM_ENV * config.learner.horizon / (ended[-1] - ended[WARM_UP - 1])


def alone(task: str) -> float:
    """Steps per second of the environments with random actions, without learning, measured for `ALONE_S` seconds."""
    import torch

    from gmi_drl.benchmarks.cases.peers.ant_simulators import step_task
    from gmi_drl.tasks import make

    torch.set_num_threads(1)
    with closing(make(task, num_env=NUM_ENV, seed=1, threads=1)) as worlds:
        return step_task(worlds, ALONE_S).value


def tell() -> None:
    """Print the sides' steps, steps/s and seconds to the goals, and how many times better ours are, with intervals.

    Those of steps are of the seeds, those of seconds of seeds and rounds (95 %); of steps/s it is the range of rounds.
    A second table has what environments take of our iteration, and how many times as fast as rsl_rl's the rest of it
    is, and would have to be for seconds that are `WANTED` times better.
    """
    print(
        "task      ours     goal  seeds    thousand steps, ratio          "
        "steps/s of a core, ratio           seconds, ratio"
    )
    found = {(task, ours): (steps_of(task, ours), rates_of(task, ours)) for task in GOALS for ours in (OURS, BF16)}
    found = {
        key: (steps, rates)
        for key, (steps, rates) in found.items()
        if all((*steps.values(), rates[OURS], rates[THEIRS]))
    }
    for (task, ours), (steps, rates) in found.items():
        print(f"{task:9} {ours:8} {GOALS[task]:<5g} {described(steps, rates)}")
    print("\ntask      ours     environments alone, of our time   the rest, times rsl_rl's speed   wanted")
    for (task, ours), (steps, rates) in found.items():
        if rates[ALONE]:
            print(f"{task:9} {ours:8} {divided(steps, rates)}")


def steps_of(task: str, ours: str) -> dict[str, list[float]]:
    """Steps to the goal by seeds: of `ours`, a side, as `OURS`, and of rsl_rl."""
    return {
        name: [steps_to(GOALS[task], run["returns"]) for run in runs(task) if run["side"] == side]
        for name, side in ((OURS, ours), (THEIRS, THEIRS))
    }


def rates_of(task: str, ours: str) -> dict[str, list[float]]:
    """Steps per second by rounds: of `ours`, a side, as `OURS`, of rsl_rl, and of the environments alone."""
    own = [one for one in speeds() if one["task"] == task]
    return {
        name: [one["steps_per_second"] for one in own if one["side"] == side]
        for name, side in ((OURS, ours), (THEIRS, THEIRS), (ALONE, ALONE))
    }


def divided(steps: dict[str, list[float]], rates: dict[str, list[float]]) -> str:
    """What environments take of our time, and the speed of the rest beside rsl_rl's: as it is, and as it is wanted."""
    step_s = {side: 1 / statistics.median(rates[side]) for side in (OURS, THEIRS, ALONE)}
    rest_s = {side: step_s[side] - step_s[ALONE] for side in (OURS, THEIRS)}
    fewer = statistics.fmean(steps[THEIRS]) / statistics.fmean(steps[OURS])
    wanted_s = fewer * step_s[THEIRS] / WANTED - step_s[ALONE]
    wanted = f"{rest_s[THEIRS] / wanted_s:.2f}" if wanted_s > 0 else "environments alone take longer"
    share = step_s[ALONE] / step_s[OURS]
    return f"{1 / step_s[ALONE]:,.0f} steps/s, {share:.2f}   {rest_s[THEIRS] / rest_s[OURS]:.2f}   {wanted}"


def described(steps: dict[str, list[float]], rates: dict[str, list[float]]) -> str:
    """The line of a task: steps to the goal of all seeds, and steps per second of all rounds, of each side."""
    count = {side: statistics.fmean(steps[side]) / 1000 for side in (OURS, THEIRS)}
    rate = {side: statistics.median(rates[side]) for side in (OURS, THEIRS)}
    seconds = {side: 1000 * count[side] / rate[side] for side in (OURS, THEIRS)}
    fewer, faster, sooner = (count[THEIRS] / count[OURS], rate[OURS] / rate[THEIRS], seconds[THEIRS] / seconds[OURS])
    by_round = [ours / theirs for ours, theirs in zip(rates[OURS], rates[THEIRS], strict=True)]
    low, high = interval(steps[THEIRS], steps[OURS])
    least, most = interval_of_seconds(steps, rates)
    return (
        f"{len(steps[OURS])} / {len(steps[THEIRS])}"
        f"  {count[OURS]:.0f} / {count[THEIRS]:.0f} {fewer:.2f} ({low:.2f}-{high:.2f})"
        f"   {rate[OURS]:,.0f} / {rate[THEIRS]:,.0f} {faster:.2f} ({min(by_round):.2f}-{max(by_round):.2f})"
        f"   {seconds[OURS]:.1f} / {seconds[THEIRS]:.1f} {sooner:.2f} ({least:.2f}-{most:.2f})"
    )


def interval_of_seconds(steps: dict[str, list[float]], rates: dict[str, list[float]]) -> tuple[float, float]:
    """The 95 % interval of rsl_rl's seconds divided by ours, by the bootstrap of seeds and of rounds."""
    generator = random.Random(0)

    def seconds(side: str) -> float:
        drawn = [generator.choices(of[side], k=len(of[side])) for of in (steps, rates)]
        return statistics.fmean(drawn[0]) / statistics.median(drawn[1])

    ratios = sorted(seconds(THEIRS) / seconds(OURS) for _ in range(RESAMPLES))
    return ratios[round(0.025 * RESAMPLES)], ratios[round(0.975 * RESAMPLES) - 1]


def steps_to(goal: float, returns: Sequence[float | None]) -> float:
    """Steps until the mean return of `SMOOTH` updates is as high.

    Raises:
        ValueError: if it never is.
    """
    for end in range(SMOOTH, len(returns) + 1):
        ended = [value for value in returns[end - SMOOTH : end] if value is not None]
        if ended and statistics.fmean(ended) >= goal:
            return STEPS * end / len(returns)
    raise ValueError(f"a training never came to a return of {goal:g}")


def speeds() -> list[dict[str, float | str]]:
    """Read the rounds of all tasks."""
    return [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []


if __name__ == "__main__":
    main()
