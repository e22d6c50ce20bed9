"""Time to a fixed return for each number of environments and GMIs: what more samples per update cost in learning.

    cd benchmarks/time_to_return
    taskset -c 0,1 python time_to_return.py learn TASK...     # hours; continues where it was stopped
    taskset -c 0,1 python time_to_return.py speeds TASK...    # minutes, on cores that nothing else uses
    taskset -c 0,1 python time_to_return.py choices TASK...   # the same
    python time_to_return.py draw

Each training runs until the mean reward of a step has reached the task's goal, or its samples are used up. The number
of samples does not depend on the machine, so trainings may run beside other work. Divided by the steps per second of
the candidate, all of which are measured in turn, it gives the time to the goal. `choices` are the plans of `gmi-drl
plan` in the same grid with either objective.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from gmi_drl.benchmarks.cases.common.sessions import of_layouts
from gmi_drl.benchmarks.machine import Watch
from gmi_drl.config.run_config import default_config
from gmi_drl.gmi.inventory import this_node
from gmi_drl.hardware.node import Node
from gmi_drl.launch.job import resolve
from gmi_drl.launch.training import train
from gmi_drl.layout.cut import Cut
from gmi_drl.profiler.measured_plan import plan_here
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row
from gmi_drl.scheduler.plan import plan
from gmi_drl.workload import TASK_SPECS

RESULTS = Path(__file__).parents[1] / "results" / "time_to_return"
NUM_ENVS = (64, 128, 256, 512, 1024, 2048, 4096)
GMIS = (1, 2)
GRID = tuple(Cut(gmis, num_env) for gmis, num_env in product(GMIS, NUM_ENVS))
PLANNED = tuple(cut for cut in GRID if cut.num_env >= 128)
"""The candidates that `gmi-drl plan` tries: some tasks do not learn with fewer environments."""
SEEDS = (1, 2, 3)
OBJECTIVES = ("steps", "learning")
WINDOW = 16_384
"""Samples over which the reward of a step is averaged, in whole iterations, as small ones are noisy."""
ROUNDS, SECONDS, DEADLINE_S = 3, 2.0, 300.0
PLAN_S = 60.0
"""The default budget of `gmi-drl plan` on cores."""


@dataclass(frozen=True)
class Goal:
    """The mean reward of a step to reach, and the number of samples after which a training stops."""

    reward: float
    samples: int


GOALS = {
    "ant": Goal(reward=3.0, samples=2_000_000),
    "anymal": Goal(reward=0.012, samples=2_400_000),
    "ball_balance": Goal(reward=0.6, samples=1_000_000),
    "humanoid": Goal(reward=2.5, samples=1_500_000),
}


@dataclass(frozen=True)
class Run:
    """One training: the samples until it reached its goal (None: it did not), and its curve."""

    gmis: int
    num_env: int
    seed: int
    samples: int | None
    rewards: tuple[float, ...]
    """Of a step, for each iteration."""

    @property
    def cut(self) -> Cut:
        """Its candidate."""
        return Cut(self.gmis, self.num_env)


class _ReachedError(Exception):
    """Raised to end a training that has reached its goal."""


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (learn, speeds, choices):
        commands.add_parser(command.__name__).add_argument("task", nargs="+", choices=list(GOALS))
    commands.add_parser("draw")
    given = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    if given.command == "draw":
        from time_to_return_picture import draw

        draw(RESULTS / "time_to_return.png")
        return
    for task in given.task:
        {"learn": learn, "speeds": speeds, "choices": choices}[given.command](task)


def learn(task: str) -> None:
    """Run every training of a task that is not in its file yet."""
    known = {(run.cut, run.seed) for run in runs(task)}
    for seed, cut in product(SEEDS, sorted(GRID, key=lambda cut: cut.num_env)):
        if (cut, seed) not in known:
            run = learned(task, cut, seed)
            with runs_file(task).open("a") as file:
                file.write(json.dumps(asdict(run)) + "\n")
            print(f"{task} {cut}, seed {seed}: {run.samples or 'not reached'}", flush=True)


def speeds(task: str) -> None:
    """Measure the steps per second of every candidate of a task, in turn."""
    spec, watch, config = TASK_SPECS[task], Watch(), default_config(TASK_SPECS[task])
    layouts = {gmis: plan(spec, cores(), num_env=1, gmis_per_gpu=gmis) for gmis in GMIS}
    measured: dict[Cut, list[float]] = {cut: [] for cut in GRID}
    with of_layouts(layouts, config) as sessions:
        for number in range(ROUNDS):
            for cut in GRID if number % 2 == 0 else reversed(GRID):
                speed = sessions[cut.gmis_per_gpu].measure(cut.num_env, SECONDS, deadline_s=DEADLINE_S)
                measured[cut].append(round(speed.steps_per_second))
                print(f"{task} {cut}: {speed.steps_per_second:.0f} steps/s", flush=True)
    keep(task, machine=watch.machine().model_dump(mode="json"), speeds={str(cut): of for cut, of in measured.items()})


def choices(task: str) -> None:
    """Plan in the grid with either objective, with new measurements."""
    spec, config = TASK_SPECS[task], default_config(TASK_SPECS[task])
    chosen = {}
    for objective in OBJECTIVES:
        made = plan_here(spec, config, cores(), PLANNED, objective=objective, seconds=PLAN_S, fresh=True)
        gmis = made.layout.gmis
        chosen[objective] = {"gmis": len(gmis), "num_env": gmis[0].num_env, "reasons": list(made.layout.reasons)}
        print(f"{task}, {objective}: {len(gmis)} x {gmis[0].num_env}", flush=True)
    keep(task, choices=chosen)


def runs(task: str) -> list[Run]:
    """The trainings of a task's file."""
    lines = runs_file(task).read_text().splitlines() if runs_file(task).exists() else []
    return [Run(**{**one, "rewards": tuple(one["rewards"])}) for one in map(json.loads, lines)]


def seconds_to_goal(task: str) -> dict[Cut, list[float | None]]:
    """The seconds of each candidate and seed; None if the goal was not reached."""
    per_second = {cut: median(kept(task)["speeds"][str(cut)]) for cut in GRID}
    trained = runs(task)
    return {cut: [run.samples and run.samples / per_second[cut] for run in trained if run.cut == cut] for cut in GRID}


def middle(seconds: Sequence[float | None]) -> float | None:
    """The median over the seeds (of two the slower); None if it did not reach the goal, or none was trained."""
    if not seconds:
        return None
    middle_one = sorted(seconds, key=lambda value: (value is None, value or 0.0))[len(seconds) // 2]
    return middle_one


def runs_file(task: str) -> Path:
    """The file of a task's trainings, a line each."""
    return RESULTS / f"{task}.jsonl"


def kept(task: str) -> dict[str, Any]:
    """Read the speeds and choices of a task."""
    file = RESULTS / f"{task}.json"
    told: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return told


def keep(task: str, **facts: Any) -> None:
    """Write speeds or choices of a task."""
    (RESULTS / f"{task}.json").write_text(json.dumps({**kept(task), **facts}, indent=1) + "\n")


def learned(task: str, cut: Cut, seed: int) -> Run:
    """Run one training, to its goal or its end."""
    spec, goal = TASK_SPECS[task], GOALS[task]
    layout = plan(spec, cores(), num_env=cut.num_env, gmis_per_gpu=cut.gmis_per_gpu)
    config = default_config(spec)
    per_iteration = layout.num_env * config.learner.horizon
    config = config.model_copy(update={"seed": seed, "iterations": -(-goal.samples // per_iteration)})
    rewards: list[float] = []

    def hear(row: Row) -> None:
        rewards.append(round(row["reward_mean"], 5))
        if has_reached(rewards, per_iteration, goal.reward):
            raise _ReachedError

    samples = None
    with TemporaryDirectory(prefix="gmi-drl-bench-") as path:
        folder = RunFolder(Path(path) / "run", stays=False)
        folder.create()
        try:
            train(resolve(layout, config, folder), on_row=hear)
        except _ReachedError:
            samples = len(rewards) * per_iteration
    return Run(cut.gmis_per_gpu, cut.num_env, seed, samples, tuple(rewards))


def has_reached(rewards: list[float], per_iteration: int, goal: float) -> bool:
    """Whether the mean reward over the last iterations, at least a window of them, has reached the goal."""
    count = -(-WINDOW // per_iteration)
    last = rewards[-count:]
    return len(last) == count and sum(last) / count >= goal


def cores() -> Node:
    """This machine without its GPUs."""
    return this_node().model_copy(update={"gpus": None})


if __name__ == "__main__":
    main()
