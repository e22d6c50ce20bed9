"""The sequence policy beside behaviour cloning of an MLP, from recorded episodes of a PPO of ours.

    python benchmarks/time_to_return/recorded_episodes.py record mujoco:Hopper-v5 --seconds 900   # PPO, then episodes
    python benchmarks/time_to_return/recorded_episodes.py learn mujoco:Hopper-v5 --seeds 3        # goes on if stopped
    python benchmarks/time_to_return/recorded_episodes.py learn ant --seeds 1 --minutes 1 --sides cloning_expert # trial
    python benchmarks/time_to_return/recorded_episodes.py tell
    python benchmarks/time_to_return/recorded_episodes.py draw   # results/recorded_episodes/learn_TASK.png of each task

`record` trains by `gmi-drl train`, lets the policy act by `gmi-drl serve --experience`, imports what it did
(`expert.replay`), and as many steps of random actions with half of it (`mixed.replay`). Each run of `learn` is one
process with one thread on one core; a line of `results/recorded_episodes/learn.jsonl` is what it has given. Runs with
other minutes than the usual two are trials: nothing keeps them. CPU seconds of learning count, without those of
evaluations. On mixed episodes the sequence policy is asked for the mean return of the expert's.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path
from typing import Any

from resumable import read, run_all

RESULTS = Path(__file__).parents[1] / "results" / "recorded_episodes"
FILE = RESULTS / "learn.jsonl"
FOLDER = Path("runs/recorded")
EPISODES, EVALUATED, SEED = 200, 10, 100
LEARNERS, DATA = ("sequence", "cloning"), ("expert", "mixed")
SIDES = tuple(f"{learner}_{data}" for learner in LEARNERS for data in DATA)
HIDDEN = (256, 256)
EVERY = 500
"""Updates between evaluations."""

MINUTES = 2.0
"""CPU time of a run, unless it is a trial."""


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording, learning = commands.add_parser("record"), commands.add_parser("learn")
    one = commands.add_parser("one", help="a single run, as `learn` starts it")
    recording.add_argument("task")
    recording.add_argument("--seconds", type=float, default=900.0, help="of PPO's training")
    recording.add_argument("--num-env", type=int, default=64)
    learning.add_argument("task", nargs="+")
    learning.add_argument("--seeds", type=int, default=3)
    learning.add_argument("--minutes", type=float, default=MINUTES, help="of learning, in CPU time")
    learning.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    for name in ("task", "side", "seed", "minutes", "folder"):
        one.add_argument(name)
    for command in (recording, learning):
        command.add_argument("--folder", type=Path, default=FOLDER, help="of the episodes")
    commands.add_parser("tell")
    commands.add_parser("draw")
    given = parser.parse_args()
    if given.command == "tell":
        tell()
    elif given.command == "draw":
        draw(read(FILE), FILE.parent)
    elif given.command == "record":
        record(given.task, given.folder / name_of(given.task), given.seconds, given.num_env)
    elif given.command == "one":
        with redirect_stdout(sys.stderr):
            told = learn(given.task, given.side, int(given.seed), float(given.minutes), Path(given.folder))
        print(json.dumps(told))
    else:
        file = kept_in(FILE, given.minutes)
        known = {(run["task"], run["side"], run["seed"]) for run in read(FILE) if file == FILE}
        wanted = product(given.task, range(1, given.seeds + 1), given.sides)
        missing = [(task, side, seed) for task, seed, side in wanted if (task, side, seed) not in known]
        more = str(given.minutes), str(given.folder)
        run_all(__file__, [(task, side, str(seed), *more) for task, side, seed in missing], file, None, in_words)


def kept_in(file: Path, minutes: float) -> Path:
    """Where runs of so many minutes are kept: those of a trial go nowhere."""
    return file if minutes == MINUTES else Path(os.devnull)


def name_of(task: str) -> str:
    """A folder's name for a task."""
    return task.replace(":", "_")


def record(task: str, folder: Path, seconds: float, num_env: int) -> None:
    """Train a PPO and import what it does, and a mixture; what is there already is not made again."""
    from gmi_drl.replay import EpisodeSet, import_episodes
    from gmi_drl.workload import TASK_SPECS

    folder.mkdir(parents=True, exist_ok=True)
    run, seen = folder / "ppo", folder / "seen"
    if not run.exists():
        more = ["--num-env", str(num_env), "--set", f"time_limit_s={seconds}", "--iterations", "1000000"]
        gmi_drl("train", "--task", task, "--gmis-per-gpu", "1", *more, "--run-dir", str(run))
    if not seen.exists():
        steps = TASK_SPECS[task].episode_steps if task in TASK_SPECS else 1000
        more = ["--num-env", str(EPISODES), "--steps", str(steps + 1), "--experience", str(seen)]
        gmi_drl("serve", str(run), "--gmis-per-gpu", "1", *more)
    if not (folder / "expert.replay").exists():
        gmi_drl("replay", "import", str(seen), "--into", str(folder / "expert.replay"))
    if not (folder / "mixed.replay").exists():
        expert = EpisodeSet(folder / "expert.replay")
        import_episodes(mixed(task, expert), folder / "mixed.replay")


def gmi_drl(*arguments: str) -> None:
    """Run a command of ours."""
    subprocess.run([str(Path(sys.executable).with_name("gmi-drl")), *arguments], check=True)


def mixed(task: str, expert: Any) -> Iterator[dict[str, Any]]:
    """Every second episode of the expert, and as many steps of random ones."""
    import torch

    from gmi_drl.tasks import make

    taken, names = 0, ("obs", "action", "reward", "terminated", "truncated")
    for number in range(0, len(expert), 2):
        length = int(expert.lengths[number])
        taken += length
        rows = expert.windows(torch.tensor([number]), torch.tensor([0]), length).fields
        yield {name: rows[name][0].clone() for name in names}
    worlds, draw = make(task, num_env=16, seed=SEED), torch.Generator().manual_seed(SEED)
    running: list[list[tuple[Any, ...]]] = [[] for _ in range(16)]
    worlds.reset()
    while taken > 0:
        obs = worlds.obs.clone()
        action = 2 * torch.rand(16, worlds.spec.action.size, generator=draw) - 1
        _, reward, terminated, truncated, info = worlds.step(action)
        for world in range(16):
            if not info["valid"][world]:
                running[world] = []
                continue
            step = obs[world], action[world], reward[world], terminated[world], truncated[world]
            running[world].append(tuple(one.clone() for one in step))
            if terminated[world] or truncated[world]:
                taken -= len(running[world])
                yield {
                    name: torch.stack(column)
                    for name, column in zip(names, zip(*running[world], strict=True), strict=True)
                }
                running[world] = []
    worlds.close()


def learn(task: str, side: str, seed: int, minutes: float, folder: Path) -> dict[str, Any]:
    """Run one training. Returns what its line has: the returns after so many updates and CPU seconds."""
    import torch

    from gmi_drl.replay import EpisodeSet
    from gmi_drl.roles.training.evaluation import play_episodes
    from gmi_drl.tasks import make

    torch.set_num_threads(1)
    learner, data = side.split("_")
    of_task = folder / name_of(task)
    expert = EpisodeSet(of_task / "expert.replay")
    episodes = expert if data == "expert" else EpisodeSet(of_task / "mixed.replay")
    worlds = make(task, num_env=EVALUATED, seed=SEED + seed)
    update, act_of = (by_sequence if learner == "sequence" else by_cloning)(worlds, episodes, expert, seed)
    curve, spent_s, updates = list[tuple[int, float, float]](), 0.0, 0
    while spent_s < 60 * minutes:
        began_s = time.process_time()
        for _ in range(EVERY):
            update()
        spent_s += time.process_time() - began_s
        updates += EVERY
        count, returns, _ = play_episodes(worlds, act_of()).tolist()
        curve.append((updates, round(spent_s, 1), round(returns / count, 1)))
        print(task, side, seed, curve[-1], file=sys.stderr, flush=True)
    means = {"expert": float(expert.returns.mean()), "data": float(episodes.returns.mean())}
    return {"task": task, "side": side, "seed": seed, **means, "curve": curve}


def by_sequence(worlds: Any, episodes: Any, expert: Any, seed: int) -> tuple[Callable[[], None], Callable[[], Any]]:
    """An update of the sequence policy, and what makes its actions; as a single GMI learns."""
    import torch

    from gmi_drl.comm.links.alone import AloneLink
    from gmi_drl.comm.reductions.single import NoReduction
    from gmi_drl.config.learners import SequenceConfig
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.roles.sequence.replica import SequenceReplica

    config = SequenceConfig(data=str(episodes.folder), target_return=float(expert.returns.mean()))
    of_run = RunConfig(seed=seed, learner=config)
    replica = SequenceReplica(worlds.spec, of_run, NoReduction(), AloneLink(), device=torch.device("cpu"))
    return lambda: replica.updater.update(replica.draws.draw()), replica.policy


def by_cloning(worlds: Any, episodes: Any, expert: Any, seed: int) -> tuple[Callable[[], None], Callable[[], Any]]:
    """An update of an MLP by the squared error of as many steps as the sequence policy reads, and what acts by it."""
    import torch

    from gmi_drl.algo.networks.mlp import mlp
    from gmi_drl.algo.normaliser import Normaliser
    from gmi_drl.comm.links.alone import AloneLink
    from gmi_drl.config.learners import SequenceConfig
    from gmi_drl.roles.sequence.draws import Draws

    torch.manual_seed(seed)
    spec, config = worlds.spec, SequenceConfig()
    network = mlp([spec.observation.size, *HIDDEN, spec.action.size], 0.01, "relu")
    scaling = Normaliser(spec.observation, torch.device("cpu"))
    scaling.load(episodes.moments["obs"])
    adam = torch.optim.Adam(network.parameters(), config.learning_rate)
    draws = Draws(episodes, AloneLink(), context=config.context, batch=config.batch, exponent=0.0, seed=seed)

    def update() -> None:
        batch = draws.draw()
        error = (network(scaling(batch.obs)) - batch.action.clamp(-1, 1)).square().mean(-1)
        adam.zero_grad()
        ((error * batch.is_step).sum() / batch.is_step.sum()).backward()
        adam.step()

    return update, lambda: lambda task, begins, reward, valid: network(scaling(task.obs)).detach()


def in_words(run: dict[str, Any]) -> str:
    """What a run has given."""
    updates, seconds, last = run["curve"][-1]
    best = max(value for _, _, value in run["curve"])
    of = f"{run['task']} {run['side']}, seed {run['seed']}: {last:.0f} after {updates} updates in {seconds:.0f} s"
    return f"{of} (best {best:.0f}); expert {run['expert']:.0f}, data {run['data']:.0f}"


def tell() -> None:
    """Print a table: the last evaluation of each run, and when 0.9 of the expert's return was reached first."""
    runs = read(FILE)
    keys = dict.fromkeys((run["task"], run["side"]) for run in runs)
    titles = ("task", "side", "seeds", "return", "of the expert's", "of its data's", "seconds to 0.9")
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for task, side in keys:
        own = [run for run in runs if (run["task"], run["side"]) == (task, side)]
        last = [run["curve"][-1][2] for run in own]
        mean, expert, data = statistics.mean(last), own[0]["expert"], own[0]["data"]
        reached = [first_at(run["curve"], 0.9 * run["expert"]) for run in own]
        when = ", ".join("never" if at is None else f"{at:.0f}" for at in reached)
        of = f"{mean:.0f} ({min(last):.0f} to {max(last):.0f}) | {mean / expert:.2f} | {mean / data:.2f}"
        print(f"| {task} | {side} | {len(own)} | {of} | {when} |")


def first_at(curve: Sequence[tuple[int, float, float]], wanted: float) -> float | None:
    """Seconds after which an evaluation first had this return; None if none had."""
    return next((seconds for _, seconds, value in curve if value >= wanted), None)


def draw(runs: Sequence[dict[str, Any]], folder: Path) -> None:
    """Draw returns over CPU seconds into a PNG file for each task: a color per side, a line per seed."""
    from matplotlib.figure import Figure

    colors = dict(zip(SIDES, ("tab:blue", "tab:cyan", "tab:orange", "tab:red"), strict=True))
    for task in dict.fromkeys(run["task"] for run in runs):
        figure = Figure(figsize=(8, 4), layout="constrained")
        axis = figure.subplots()
        own = [run for run in runs if run["task"] == task]
        for run in own:
            _, seconds, returns = zip(*run["curve"], strict=True)
            axis.plot(seconds, returns, color=colors[run["side"]], alpha=0.7, linewidth=1, label=run["side"])
        axis.axhline(own[0]["expert"], color="gray", linestyle=":")
        axis.set(title=task, xlabel="CPU seconds of learning", ylabel="return of an episode")
        axis.grid(alpha=0.3)
        lines = {line.get_label(): line for line in axis.lines if line.get_label() in SIDES}
        figure.legend(lines.values(), lines, loc="outside upper center", ncols=len(SIDES), frameon=False)
        figure.savefig(folder / f"learn_{name_of(task)}.png", dpi=130)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
