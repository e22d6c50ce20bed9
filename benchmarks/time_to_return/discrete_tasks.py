"""PPO on small tasks with choices: ours, Stable-Baselines3, and a loop in the manner of CleanRL, by the same settings.

    python benchmarks/peers/setup.py sb3 cleanrl_envpool
    python benchmarks/time_to_return/discrete_tasks.py learn          # all tasks; continues where it was stopped
    python benchmarks/time_to_return/discrete_tasks.py speed          # the same with 64 environments, in turns
    python benchmarks/time_to_return/discrete_tasks.py learn CartPole-v1 --seeds 1 --sides gmi-drl
    python benchmarks/time_to_return/discrete_tasks.py tell           # tables of all that was run
    python benchmarks/time_to_return/discrete_tasks.py draw           # its learning curves

Each run is one process with one thread on one core, and CPU seconds count, so that runs may lie beside other work; on
a quiet machine these are wall seconds. What a run has given is a line of `results/discrete_tasks/COMMAND.jsonl`.
Seeds were fixed before the first run. Ours and CleanRL's loop step envpool's environments, Stable-Baselines3 those of
gymnasium, as its users do.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

from resumable import Run, read, run_all
from trainings import OURS, Settings, by_ours, by_peer, in_words, missing, record

RESULTS = Path(__file__).parents[1] / "results" / "discrete_tasks"
PEERS = {"sb3": "discrete_sb3", "cleanrl_envpool": "discrete_cleanrl"}
"""The environment of each peer, and its driver."""

SIDES = (OURS, *PEERS)
SEEDS, ROUNDS = 5, 5
SPEED_ENVS, SPEED_UPDATES = 64, 60

TASKS = {
    of.env_id: of
    for of in (
        Settings("CartPole-v1", 150_000, 475),
        Settings("Acrobot-v1", 300_000, -100, num_env=16, lam=0.94, epochs=4, normalise=True),
        Settings(
            "LunarLander-v3", 1_000_000, 200, num_env=16, horizon=1024, epochs=4, gamma=0.999, lam=0.98, entropy=0.01
        ),
    )
}
"""Settings of RL Baselines3 Zoo, or of Stable-Baselines3 itself where the zoo's decay."""

SPEED_TASKS = ("CartPole-v1", "LunarLander-v3")


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, tasks, seeds in (("learn", tuple(TASKS), SEEDS), ("speed", SPEED_TASKS, ROUNDS)):
        command = commands.add_parser(name)
        command.add_argument("task", nargs="*", default=list(tasks), metavar="TASK", help=", ".join(tasks))
        command.add_argument("--seeds", type=int, default=seeds)
        command.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    commands.add_parser("tell")
    commands.add_parser("draw")
    one = commands.add_parser("one", help="a single run, as the others start it")
    one.add_argument("kind", choices=("learn", "speed"))
    one.add_argument("task", choices=list(TASKS))
    one.add_argument("side", choices=SIDES)
    one.add_argument("seed", type=int)
    given = parser.parse_args()
    if given.command == "tell":
        from discrete_tables import tell

        tell()
    elif given.command == "draw":
        from discrete_picture import draw

        draw(RESULTS / "learn.png", TASKS, SIDES, runs("learn"))
    elif given.command == "one":
        with redirect_stdout(sys.stderr):
            told = train(given.kind, given.task, given.side, given.seed)
        print(json.dumps(told))
    else:
        if unknown := sorted(set(given.task) - set(TASKS)):
            parser.error(f"unknown task {', '.join(unknown)}: there are {', '.join(TASKS)}")
        run_missing(given.command, given.task, given.sides, given.seeds)


def run_missing(kind: str, tasks: Sequence[str], sides: Sequence[str], seeds: int) -> None:
    """Run all that is not in the file yet: trainings one at a time on each core, speeds one after the other."""
    wanted = [(kind, *of) for of in missing(runs(kind), tasks, sides, seeds)]
    run_all(__file__, wanted, runs_file(kind), 1 if kind == "speed" else None, in_words)


def train(kind: str, task: str, side: str, seed: int) -> Run:
    """Run one training. Returns what its line has."""
    settings = for_speed(TASKS[task]) if kind == "speed" else TASKS[task]
    updates = by_ours(settings, seed) if side == OURS else by_peer(settings, side, PEERS[side], seed)
    return record(task, side, seed, updates)


def for_speed(settings: Settings) -> Settings:
    """The same with 64 environments and 2048 samples an update."""
    few = {"horizon": 32, "batch": 512, "epochs": 4, "steps": SPEED_UPDATES * 32 * SPEED_ENVS}
    return replace(settings, num_env=SPEED_ENVS, **few)


def runs(kind: str) -> list[Run]:
    """Read what was run by a command."""
    return read(runs_file(kind))


def runs_file(kind: str) -> Path:
    """The file of a command's runs, a line each."""
    return RESULTS / f"{kind}.jsonl"


if __name__ == "__main__":
    main()
