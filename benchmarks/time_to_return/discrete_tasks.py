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
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from resumable import read, run_all

RESULTS = Path(__file__).parents[1] / "results" / "discrete_tasks"
OURS = "gmi-drl"
PEERS = {"sb3": "discrete_sb3", "cleanrl_envpool": "discrete_cleanrl"}
"""The environment of each peer, and its driver."""

SIDES = (OURS, *PEERS)
FIRST_SEED, SEEDS, ROUNDS = 1, 5, 5
DEADLINE_S = 7200.0
SPEED_ENVS, SPEED_UPDATES = 64, 60


@dataclass(frozen=True)
class Settings:
    """Of a task, for all sides. Those of RL Baselines3 Zoo, or of Stable-Baselines3 itself where the zoo's decay.

    Attributes:
        env_id: In gymnasium and in envpool.
        steps: Of all environments.
        threshold: The return of an episode at which the task counts as solved.
        normalise: Whether Stable-Baselines3 gets observations and rewards normalised, as the zoo says. Ours always
            normalises observations, CleanRL's loop never does.
    """

    env_id: str
    steps: int
    threshold: float
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

    @property
    def samples(self) -> int:
        """Of an update."""
        return self.num_env * self.horizon

    @property
    def for_speed(self) -> "Settings":
        """The same with 64 environments and 2048 samples an update."""
        few = {"horizon": 32, "batch": 512, "epochs": 4, "steps": SPEED_UPDATES * 32 * SPEED_ENVS}
        return replace(self, num_env=SPEED_ENVS, **few)


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
SPEED_TASKS = ("CartPole-v1", "LunarLander-v3")


class Update(NamedTuple):
    """Of a run: steps and CPU seconds so far, the episodes that ended within it and the sum of their returns."""

    env_steps: int
    cpu_s: float
    episodes: int
    return_sum: float


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

        draw(RESULTS / "learn.png")
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
    known = {(run["task"], run["side"], run["seed"]) for run in runs(kind)}
    numbers = range(FIRST_SEED, FIRST_SEED + seeds)
    wanted = [(task, side, seed) for task, seed in product(tasks, numbers) for side in _in_turn(sides, seed)]
    missing = [(kind, task, side, str(seed)) for task, side, seed in wanted if (task, side, seed) not in known]
    run_all(__file__, missing, runs_file(kind), 1 if kind == "speed" else None, _in_words)


def _in_words(run: dict[str, Any]) -> str:
    return (
        f"{run['task']} {run['side']}, seed {run['seed']}: {run['env_steps']} steps in {run['cpu_s']:.1f} CPU seconds"
    )


def _in_turn(sides: Sequence[str], seed: int) -> list[str]:
    """The sides in an order that alternates, so that a slow minute of the machine does not meet the same one."""
    return list(sides) if seed % 2 else list(reversed(sides))


def train(kind: str, task: str, side: str, seed: int) -> dict[str, Any]:
    """Run one training. Returns what its line has."""
    settings = TASKS[task].for_speed if kind == "speed" else TASKS[task]
    updates = list(by_ours(settings, seed) if side == OURS else by_peer(settings, side, seed))
    return {
        "task": task,
        "side": side,
        "seed": seed,
        "env_steps": updates[-1].env_steps,
        "cpu_s": round(updates[-1].cpu_s, 2),
        "updates": [(steps, round(cpu_s, 3), count, round(total, 2)) for steps, cpu_s, count, total in updates],
    }


def by_ours(settings: Settings, seed: int) -> Iterator[Update]:
    """Train as a single GMI does (`roles.training.holistic`), without its process, files and messages."""
    import torch

    from gmi_drl.comm.reductions.single import NoReduction
    from gmi_drl.roles.seeds import seed_of
    from gmi_drl.roles.training.iteration_stats import Decision
    from gmi_drl.roles.training.ppo_replica import PPOReplica
    from gmi_drl.tasks import make

    torch.set_num_threads(1)
    config, device = our_config(settings, seed), torch.device("cpu")
    seeds = {purpose: seed_of(config, 0, 0, purpose) for purpose in ("task", "learner", "agent")}
    torch.manual_seed(seeds["task"])
    task = make(f"envpool:{settings.env_id}", num_env=settings.num_env, seed=seeds["task"], threads=1)
    reduction = NoReduction(device=device)
    replica = PPOReplica(task.spec, config, reduction, sample_share=1.0, device=device, seed=seeds["learner"])
    replica.attach_task(task, seeds["agent"])
    began_s = time.process_time()
    for number in range(1, -(-settings.steps // settings.samples) + 1):
        stats = replica.iterate(lambda: Decision.GO_ON)
        replica.metrics()  # as for a row
        yield Update(number * settings.samples, time.process_time() - began_s, stats.episodes, stats.return_sum)


def our_config(settings: Settings, seed: int) -> Any:
    """The settings as ours."""
    from gmi_drl.config.learners import PPOConfig
    from gmi_drl.config.run_config import RunConfig

    learner = PPOConfig(
        hidden=settings.hidden,
        activation="tanh",
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


def by_peer(settings: Settings, peer: str, seed: int) -> Iterator[Update]:
    """Train by a library in its own environment."""
    from gmi_drl.benchmarks import peers

    more = ["--settings", json.dumps(asdict(settings)), "--seed", str(seed)]
    sizes = {"num_env": settings.num_env, "threads": 1, "seconds": DEADLINE_S}
    for of in peers.train(peer, driver=PEERS[peer], more=more, **sizes):
        episodes = of.episodes or 0
        yield Update(of.env_steps, of.cpu_s, episodes, episodes * (of.return_mean or 0.0))


def runs(kind: str) -> list[dict[str, Any]]:
    """Read what was run by a command."""
    return read(runs_file(kind))


def runs_file(kind: str) -> Path:
    """The file of a command's runs, a line each."""
    return RESULTS / f"{kind}.jsonl"


if __name__ == "__main__":
    main()
