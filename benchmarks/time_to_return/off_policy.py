"""DQN and SAC beside Stable-Baselines3, torchrl and a loop as CleanRL's, a training at a time on one core.

It goes on where it was stopped:

    python benchmarks/time_to_return/off_policy.py learn dqn_cartpole --seeds 3       # 10 minutes on a quiet core
    python benchmarks/time_to_return/off_policy.py learn sac_half_cheetah --seeds 3   # 14 hours
    python benchmarks/time_to_return/off_policy.py learn sac_half_cheetah --steps 100000 --sides prioritized n_step_3
    python benchmarks/time_to_return/off_policy.py tell

Trainings are those of the cases of the same names (`gmi-drl bench`); sides take turns, seed after seed. A line is
written when a training has ended, and it is not measured again: remove lines of older code. The committed lines of ours
have the seconds of phases, which leave out 0.5 % of DQN's seconds by the clock and 0.2 % of SAC's.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from two_means import chance, interval, ratio_of_means

from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases.peers.off_policy import DRIVERS, DUELS, train_ours, train_theirs
from gmi_drl.benchmarks.cores import one_core

RESULTS = Path(__file__).parents[1] / "results" / "off_policy"
OURS, THEIRS = "gmi-drl", "sb3"
"""What all others are compared with is Stable-Baselines3."""

VARIANTS: dict[str, dict[str, Any]] = {
    OURS: {},
    "prioritized": {"sampler": "prioritized"},
    "n_step_3": {"n_step": 3},
    "both": {"sampler": "prioritized", "n_step": 3},
}
"""Ours, by what differs in the section `learner.replay`."""

RATES_AND_RETURNS = (
    ("rate", "steps/s"),
    ("return", "return"),
    ("late_return", "late return"),
    ("best_return", "best return"),
)
"""What is told of a side, by its name in a line, and its unit."""

SIDES = (OURS, *DRIVERS, *(side for side in VARIANTS if side != OURS))


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    learning, one = commands.add_parser("learn"), commands.add_parser("one", help="a training, as `learn` starts it")
    learning.add_argument("duel", nargs="+", choices=sorted(DUELS))
    learning.add_argument("--seeds", type=int, default=3)
    learning.add_argument("--sides", nargs="+", choices=SIDES, default=[OURS, THEIRS])
    one.add_argument("duel", choices=sorted(DUELS))
    one.add_argument("side", choices=SIDES)
    one.add_argument("seed", type=int)
    for command in (learning, one):
        command.add_argument("--steps", type=int, help="of all environments, in place of the case's")
    commands.add_parser("tell")
    given = parser.parse_args()
    if given.command == "tell":
        tell()
    elif given.command == "one":
        with redirect_stdout(sys.stderr):
            trained = train(given.duel, given.side, given.seed, given.steps or DUELS[given.duel].steps)
        print(json.dumps(trained))
    else:
        for duel in given.duel:
            learn(duel, given.sides, given.seeds, given.steps or DUELS[duel].steps)


def learn(duel: str, sides: Sequence[str], seeds: int, steps: int) -> None:
    """Run all trainings that are not in the file yet, each in a process of its own, on the first core."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    known = {(run["side"], run["seed"], run["steps"]) for run in runs(duel)}
    for seed, side in product(range(1, seeds + 1), sides):
        if (side, seed, steps) in known:
            continue
        command = [sys.executable, __file__, "one", duel, side, str(seed), "--steps", str(steps)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
        with runs_file(duel).open("a") as file:
            file.write(line)
        trained = json.loads(line)
        print(f"{duel} {side}, seed {seed}: {trained['rate']:.0f} steps/s, return {trained['return']:.1f}", flush=True)


def train(duel: str, side: str, seed: int, steps: int) -> dict[str, Any]:
    """Run one training. Returns steps per second, returns at its end, and their curve."""
    if side in DRIVERS:
        with one_core():
            sample = train_theirs(DUELS[duel], steps, seed, side)
    else:
        with TemporaryDirectory(prefix="gmi-drl-off-policy-") as folder:  # its GMI has a core, and claims it
            replay = {**DUELS[duel].replay, **VARIANTS[side]}
            sample = train_ours(replace(DUELS[duel], replay=replay), steps, seed, Path(folder))
    found = {"side": side, "seed": seed, "steps": steps, "rate": sample.value, "curve": sample.details[CURVES]}
    return found | {name: sample.details[name] for name in ("return", "late_return", "best_return", "training_s")}


def tell() -> None:
    """Print each side of all duels with all its seeds, and ratios to Stable-Baselines3 with 95 % intervals and p."""
    for duel in sorted(DUELS):
        found = runs(duel)
        for steps, side in product(sorted({run["steps"] for run in found}), SIDES):
            ours, theirs = (
                [run for run in found if run["steps"] == steps and run["side"] == one] for one in (side, THEIRS)
            )
            if ours:
                print(f"{duel}, {steps:,} steps, {side}: {described(ours, theirs if side != THEIRS else [])}")


def described(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> str:
    """Rates and returns of a side as text, each with its ratio to the other side's if all values are above 0.

    A ratio has its 95 % interval and the p-value of a permutation test.
    """
    parts = []
    for what, unit in RATES_AND_RETURNS:
        own, other = ([run[what] for run in side] for side in (ours, theirs))
        text = f"median {unit} {statistics.median(own):.5g} of {', '.join(f'{value:.5g}' for value in own)}"
        if other and min(own + other) > 0:
            low, high = interval(own, other)
            text += f", {ratio_of_means(own, other):.2f}x ({low:.2f} to {high:.2f}), p {chance(own, other):.2f}"
        parts.append(text)
    return "; ".join(parts)


def runs(duel: str) -> list[dict[str, Any]]:
    """Read the trainings of a duel."""
    file = runs_file(duel)
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def runs_file(duel: str) -> Path:
    """The file of a duel's trainings, a line each."""
    return RESULTS / f"{duel}.jsonl"


if __name__ == "__main__":
    main()
