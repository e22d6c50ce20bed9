"""Trainings of the same tasks by ours and by peers: settings, how ours trains, and the commands of a script of them.

Each run is one process with one thread on one core, and CPU seconds count, so that runs may lie beside other work; on
a quiet machine these are wall seconds. Tables and pictures of runs are in `discrete_tables.py`, `discrete_picture.py`.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from resumable import Run, read, run_all

OURS = "gmi-drl"
FIRST_SEED = 1
DEADLINE_S = 7200.0
PATIENCE = 10
"""How many times its CPU seconds a peer may take by the clock, on a busy machine."""


@dataclass(frozen=True)
class Settings:
    """Of a task, for all sides.

    Attributes:
        env_id: Of the peers' environment.
        steps: Of all environments.
        threshold: The return of an episode at which the task counts as solved; None if there is none.
        cpu_s: CPU seconds after which a training ends, whatever its steps.
        conv: Channels, kernel and stride of each convolution, shared by policy and value; empty: two MLPs of `hidden`.
        features: Width of the layer after the convolutions.
        normalise: Whether Stable-Baselines3 gets observations and rewards normalised, as the zoo says. Ours always
            normalises vectors, CleanRL's loop never does.
    """

    env_id: str
    steps: int
    threshold: float | None
    num_env: int = 8
    horizon: int = 256
    batch: int = 64
    epochs: int = 10
    learning_rate: float = 3e-4
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    entropy: float = 0.0
    value: float = 0.5
    max_grad_norm: float = 0.5
    hidden: tuple[int, ...] = (64, 64)
    normalise: bool = False
    conv: tuple[tuple[int, int, int], ...] = ()
    features: int = 512
    cpu_s: float = DEADLINE_S

    @property
    def samples(self) -> int:
        """Of an update."""
        return self.num_env * self.horizon


class Update(NamedTuple):
    """Of a run: steps and CPU seconds so far, the episodes that ended within it, the sum of their returns.

    Also the bytes of its replay, if it has one.
    """

    env_steps: int
    cpu_s: float
    episodes: int
    return_sum: float
    replay_bytes: int | None = None


MakeTask = Callable[[int], Any]
"""Makes our task with a seed."""


def by_ours(settings: Settings, seed: int, make: MakeTask | None = None, config: Any = None) -> Iterator[Update]:
    """Train as a single GMI does (`roles.training.holistic`), without its process, files and messages.

    Args:
        settings: Of the task.
        seed: Of the run.
        make: Makes the task; None for that of envpool.
        config: Of the run; None for PPO by the settings.
    """
    import torch

    from gmi_drl import tasks
    from gmi_drl.comm.reductions.single import NoReduction
    from gmi_drl.config.learners.off_policy import OffPolicyConfig
    from gmi_drl.roles.replay.replica import ReplayReplica
    from gmi_drl.roles.seeds import seed_of
    from gmi_drl.roles.training.iteration_stats import Decision
    from gmi_drl.roles.training.ppo_replica import PPOReplica

    torch.set_num_threads(1)
    config, device = config or our_config(settings, seed), torch.device("cpu")
    seeds = {purpose: seed_of(config, 0, 0, purpose) for purpose in ("task", "learner", "agent")}
    torch.manual_seed(seeds["task"])
    name = f"envpool:{settings.env_id}"
    task = make(seeds["task"]) if make else tasks.make(name, num_env=settings.num_env, seed=seeds["task"], threads=1)
    reduction = NoReduction(device=device)
    replica: PPOReplica | ReplayReplica
    if isinstance(config.learner, OffPolicyConfig):
        sizes = {"num_env": settings.num_env, "group_num_env": settings.num_env}
        replica = ReplayReplica(task.spec, config, reduction, **sizes, device=device, seed=seeds["learner"])
    else:
        replica = PPOReplica(task.spec, config, reduction, sample_share=1.0, device=device, seed=seeds["learner"])
    replica.attach_task(task, seeds["agent"])
    replay_bytes = replica.ring.storage.bytes if isinstance(replica, ReplayReplica) else None
    began_s = time.process_time()
    for number in range(1, -(-settings.steps // settings.samples) + 1):
        stats = replica.iterate(lambda: Decision.GO_ON)
        replica.metrics()  # as for a row
        cpu_s = time.process_time() - began_s
        yield Update(number * settings.samples, cpu_s, stats.episodes, stats.return_sum, replay_bytes)
        if cpu_s >= settings.cpu_s:
            return


def our_config(settings: Settings, seed: int) -> Any:
    """The settings as ours."""
    from gmi_drl.config.learners import PPOConfig
    from gmi_drl.config.run_config import RunConfig

    network: dict[str, Any] = {"hidden": settings.hidden, "activation": "tanh"}
    if settings.conv:
        network |= {"conv": settings.conv, "features": settings.features, "activation": "relu"}
    learner = PPOConfig(
        **network,
        horizon=settings.horizon,
        epochs=settings.epochs,
        minibatches=settings.samples // settings.batch,
        learning_rate=settings.learning_rate,
        schedule="fixed",
        gamma=settings.gamma,
        lam=settings.lam,
        clip=settings.clip,
        entropy_coef=settings.entropy,
        value_loss_coef=settings.value,
        clip_value_loss=False,
        max_grad_norm=settings.max_grad_norm,
    )
    return RunConfig(seed=seed, learner=learner)


def by_peer(settings: Settings, peer: str, driver: str, seed: int) -> Iterator[Update]:
    """Train by a library in its own environment."""
    from gmi_drl.benchmarks import peers

    more = ["--settings", json.dumps(asdict(settings)), "--seed", str(seed)]
    sizes = {"num_env": settings.num_env, "threads": 1, "seconds": PATIENCE * settings.cpu_s}
    for of in peers.train(peer, driver=driver, more=more, **sizes):
        episodes = of.episodes or 0
        yield Update(of.env_steps, of.cpu_s, episodes, episodes * (of.return_mean or 0.0), of.replay_bytes)


def record(task: str, side: str, seed: int, updates: Iterable[Update]) -> Run:
    """What the line of a run has."""
    listed = list(updates)
    last = listed[-1]
    return {
        "task": task,
        "side": side,
        "seed": seed,
        "env_steps": last.env_steps,
        "cpu_s": round(last.cpu_s, 2),
        "updates": [(steps, round(cpu_s, 3), count, round(total, 2)) for steps, cpu_s, count, total, _ in listed],
        **({"replay_bytes": last.replay_bytes} if last.replay_bytes is not None else {}),
    }


def in_words(run: Run) -> str:
    """A run in a line."""
    episodes = sum(count for _, _, count, _ in run["updates"])
    mean = sum(total for *_, total in run["updates"]) / max(1, episodes)
    speed = f"{run['env_steps']} steps in {run['cpu_s']:.1f} CPU seconds"
    memory = f", replay of {run['replay_bytes'] / 1e6:.0f} MB" if "replay_bytes" in run else ""
    return f"{run['task']} {run['side']}, seed {run['seed']}: {speed}, {episodes} episodes of {mean:.1f}{memory}"


def missing(known: Sequence[Run], tasks: Sequence[str], sides: Sequence[str], seeds: int) -> list[tuple[str, str, str]]:
    """Task, side and seed of the runs that are not among the known ones, the sides in an order that alternates.

    So a slow minute of the machine does not always meet the same side.
    """
    done = {(run["task"], run["side"], run["seed"]) for run in known}
    return [
        (task, side, str(seed))
        for task, seed in product(tasks, range(FIRST_SEED, FIRST_SEED + seeds))
        for side in (sides if seed % 2 else reversed(sides))
        if (task, side, seed) not in done
    ]


@dataclass(frozen=True)
class Trainings:
    """The commands `learn`, `tell` and `draw` of a script.

    Attributes:
        script: Its path.
        name: Of its folder in `results/`.
        tasks: Their settings.
        sides: Ours first.
        train: Trains a task by a side with a seed.
        seeds: How many, unless told.
        without: Tasks with the sides that do not train them.
        peer: In whose environment all sides run; None for that of the script.
    """

    script: str
    name: str
    tasks: Mapping[str, Settings]
    sides: tuple[str, ...]
    train: Callable[[Settings, str, int], Iterable[Update]]
    seeds: int = 3
    without: Set[tuple[str, str]] = frozenset()
    peer: str | None = None

    def main(self, description: str) -> None:
        """Run one of the commands."""
        parser = argparse.ArgumentParser(description=description)
        commands = parser.add_subparsers(dest="command", required=True)
        learning, one = commands.add_parser("learn"), commands.add_parser("one", help="a run, as `learn` starts it")
        learning.add_argument("task", nargs="*", default=list(self.tasks), metavar="TASK", help=", ".join(self.tasks))
        learning.add_argument("--seeds", type=int, default=self.seeds)
        learning.add_argument("--sides", nargs="+", choices=self.sides, default=list(self.sides))
        one.add_argument("task", choices=list(self.tasks))
        one.add_argument("side", choices=self.sides)
        one.add_argument("seed", type=int)
        for command in (learning, one):
            command.add_argument("--seconds", type=float, help="a trial: CPU seconds of each run; trial.jsonl has them")
        commands.add_parser("tell")
        commands.add_parser("draw")
        given = parser.parse_args()
        if given.command == "learn":
            if unknown := sorted(set(given.task) - set(self.tasks)):
                parser.error(f"unknown task {', '.join(unknown)}: there are {', '.join(self.tasks)}")
            self.learn(given.task, given.sides, given.seeds, given.seconds)
        elif given.command == "one":
            with redirect_stdout(sys.stderr):
                told = self.one(given.task, given.side, given.seed, given.seconds)
            print(json.dumps(told))
        elif given.command == "tell":
            from discrete_tables import tell_learnt, tell_speeds, tell_steps

            tell_learnt(self.tasks, self.sides, self.runs())
            tell_steps(self.tasks, self.sides, self.runs())
            tell_speeds(self.tasks, self.sides, self.runs())
        else:
            from discrete_picture import draw

            draw(self.folder / "learn.png", self.tasks, self.sides, self.runs())

    @property
    def folder(self) -> Path:
        """Of its results."""
        return Path(__file__).parents[1] / "results" / self.name

    def runs(self) -> list[Run]:
        """Read what was run."""
        return read(self.folder / "learn.jsonl")

    def learn(self, tasks: Sequence[str], sides: Sequence[str], seeds: int, seconds: float | None) -> None:
        """Run all that is not in the file yet; of a trial everything."""
        lacking = missing([] if seconds else self.runs(), tasks, sides, seeds)
        wanted: list[tuple[str, ...]] = [of for of in lacking if of[:2] not in self.without]
        if seconds:
            wanted = [(*of, "--seconds", str(seconds)) for of in wanted]
        file = self.folder / ("trial.jsonl" if seconds else "learn.jsonl")
        run_all(self.script, wanted, file, None, in_words, self.peer)

    def one(self, task: str, side: str, seed: int, seconds: float | None) -> Run:
        """Run one training. Returns what its line has."""
        settings = replace(self.tasks[task], cpu_s=seconds) if seconds else self.tasks[task]
        return record(task, side, seed, self.train(settings, side, seed))
