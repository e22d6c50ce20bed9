"""One sequence policy of several tasks beside one of each alone, from the episodes that recorded_episodes.py recorded.

    python benchmarks/time_to_return/several_tasks.py learn mujoco:Hopper-v5 ant --seeds 3   # goes on if stopped
    python benchmarks/time_to_return/several_tasks.py tell

A policy of K tasks learns for K times the CPU seconds of one alone. Each run is one process with one thread on one
core; a line of `results/recorded_episodes/several.jsonl` is what it has given.
"""

import argparse
import json
import os
import statistics
import sys
import time
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path
from typing import Any

from recorded_episodes import EVALUATED, EVERY, FOLDER, MINUTES, RESULTS, SEED, by_sequence, kept_in, name_of
from resumable import read, run_all

FILE = RESULTS / "several.jsonl"
BETWEEN = "+"


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    learning, one = commands.add_parser("learn"), commands.add_parser("one", help="a single run, as `learn` starts it")
    learning.add_argument("task", nargs="+")
    learning.add_argument("--seeds", type=int, default=3)
    learning.add_argument("--minutes", type=float, default=MINUTES, help="of learning a task, in CPU time")
    learning.add_argument("--folder", type=Path, default=FOLDER, help="of the episodes")
    for name in ("side", "seed", "minutes", "folder"):
        one.add_argument(name)
    commands.add_parser("tell")
    given = parser.parse_args()
    if given.command == "tell":
        tell()
    elif given.command == "one":
        with redirect_stdout(sys.stderr):
            told = learn(given.side.split(BETWEEN), int(given.seed), float(given.minutes), Path(given.folder))
        print(json.dumps(told))
    else:
        file = kept_in(FILE, given.minutes)
        known = {(run["side"], run["seed"]) for run in read(FILE) if file == FILE}
        wanted = product(range(1, given.seeds + 1), [BETWEEN.join(given.task), *given.task])
        missing = [(side, seed) for seed, side in wanted if (side, seed) not in known]
        more = str(given.minutes), str(given.folder)
        run_all(__file__, [(side, str(seed), *more) for side, seed in missing], file, None, in_words)


def learn(tasks: list[str], seed: int, minutes: float, folder: Path) -> dict[str, Any]:
    """Run one training. Returns what its line has: the returns in each task after so many updates and CPU seconds."""
    import torch

    from gmi_drl.replay import EpisodeSet, import_several
    from gmi_drl.roles.training.evaluation import play_episodes
    from gmi_drl.tasks import make

    torch.set_num_threads(1)
    expert = {task: folder / name_of(task) / "expert.replay" for task in tasks}
    names, units, data = dict(zip(tasks, tasks, strict=True)), dict.fromkeys(tasks, 1.0), expert[tasks[0]]
    if len(tasks) > 1:
        data = folder / f"{name_of(BETWEEN.join(tasks))}.{seed}.replay"
        name = data.with_suffix(".name")
        if not data.exists():
            name.write_text(import_several(expert, data))
        several, _, arguments = name.read_text().partition("{")
        units = dict(zip(tasks, json.loads("{" + arguments)["units"], strict=True))
        names = {
            task: several + json.dumps({"only": task, "units": list(units.values())}, sort_keys=True) for task in tasks
        }
    worlds = {task: make(names[task], num_env=EVALUATED, seed=SEED + seed) for task in tasks}
    episodes = EpisodeSet(data)
    update, act_of = by_sequence(next(iter(worlds.values())), episodes, episodes, seed)
    curve, spent_s, updates = list[tuple[int, float, dict[str, float]]](), 0.0, 0
    while spent_s < 60 * minutes * len(tasks):
        began_s = time.process_time()
        for _ in range(EVERY):
            update()
        spent_s += time.process_time() - began_s
        updates += EVERY
        returns = dict[str, float]()
        for task, own in worlds.items():
            count, total, _ = play_episodes(own, act_of()).tolist()
            returns[task] = round(units[task] * total / count, 1)
        curve.append((updates, round(spent_s, 1), returns))
        print(BETWEEN.join(tasks), seed, curve[-1], file=sys.stderr, flush=True)
    means = {task: float(EpisodeSet(one).returns.mean()) for task, one in expert.items()}
    return {"side": BETWEEN.join(tasks), "seed": seed, "expert": means, "curve": curve}


def in_words(run: dict[str, Any]) -> str:
    """What a run has given."""
    updates, seconds, last = run["curve"][-1]
    returns = ", ".join(f"{value:.0f} of {run['expert'][task]:.0f} in {task}" for task, value in last.items())
    return f"{run['side']}, seed {run['seed']}: {returns} after {updates} updates in {seconds:.0f} s"


def tell() -> None:
    """Print a table: returns of a policy of several tasks, and of those of one, each the mean of its later evaluations.

    One evaluation is of ten episodes, and the next one may be a third lower.
    """
    runs = read(FILE)
    several = dict.fromkeys(run["side"] for run in runs if BETWEEN in run["side"])
    titles = ("policy of", "task", "seeds", "return", "of one alone", "of the expert's")
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for side, task in [(one, task) for one in several for task in one.split(BETWEEN)]:
        own, alone = ([late(run, task) for run in runs if run["side"] == wanted] for wanted in (side, task))
        mean, expert = statistics.mean(own), next(run["expert"][task] for run in runs if run["side"] == side)
        beside = f"{mean / statistics.mean(alone):.2f}" if alone else "not run"
        of = f"{mean:.0f} ({min(own):.0f} to {max(own):.0f})"
        print(f"| {side} | {task} | {len(own)} | {of} | {beside} | {mean / expert:.2f} |")


def late(run: dict[str, Any], task: str) -> float:
    """The mean return in a task, of the evaluations of the second half of a training."""
    curve = run["curve"]
    return statistics.mean(returns[task] for _, _, returns in curve[len(curve) // 2 :])


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
