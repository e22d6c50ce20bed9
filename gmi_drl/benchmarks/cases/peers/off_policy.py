"""DQN on CartPole and SAC on HalfCheetah beside other libraries: steps per second, and returns after all steps."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import CURVES, Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.learning import learning
from gmi_drl.errors import GmiError

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig

DRIVERS = {
    "sb3": ("sb3", "off_policy_sb3"),
    "cleanrl": ("sb3", "off_policy_cleanrl"),
    "torchrl": ("torchrl", "off_policy_torchrl"),
}
"""The peer whose environment each other side has, and its driver. CleanRL's is a loop in its manner."""

NUM_ENV = 8
"""Of gmi-drl, in one process; the others have one, as their users run them."""

PEER_SECONDS = 14_400.0
"""Twice what the slowest needs: Stable-Baselines3's SAC did 39 steps/s, which takes 7,700 s."""

EPISODES = 10
EVALUATIONS = 20
"""In a training, in time that does not count."""

LATE = 5
"""Evaluations at the end, whose mean is told beside the last one: DQN's returns jump from one to the next."""


@dataclass(frozen=True)
class Duel:
    """What all sides train; the rest is our defaults, which are those of Stable-Baselines3 or its zoo.

    Args:
        algo: The learner.
        task: Its task of gmi-drl.
        steps: Of all environments.
        quick_steps: The same of a guard.
        starts: Steps before the first update.
        updates: Per step of an environment, on all sides.
        learner: More of our `learner`, in which it would differ from the others' algorithm.
        replay: More of our `learner.replay`.
    """

    algo: str
    task: str
    steps: int
    quick_steps: int
    starts: int
    updates: float
    learner: Mapping[str, Any] = field(default_factory=dict)
    replay: Mapping[str, Any] = field(default_factory=dict)

    def config(self, steps: int, seed: int) -> "RunConfig":
        """Our run."""
        from gmi_drl.config.run_config import default_config
        from gmi_drl.launch.task_info import task_spec

        config = default_config(task_spec(self.task), self.algo)
        learner: Any = config.learner
        replay = learner.replay.model_copy(update={"min_size": min(self.starts, steps // 2), **self.replay})
        changed = {"updates_per_step": self.updates * NUM_ENV, "replay": replay}
        iterations = math.ceil(steps / (NUM_ENV * learner.horizon))
        more = {"seed": seed, "iterations": iterations, "eval_every": max(1, iterations // EVALUATIONS)}
        more |= {"eval_num_env": EPISODES, "learner": learner.model_copy(update={**changed, **self.learner})}
        return config.model_copy(update=more)

    def open(self, quick: bool) -> AbstractContextManager[Sides]:
        """All sides. Each sample is a training of the same number of steps; seeds are 1, 2, 3 and so on."""
        return open_sides(self, self.quick_steps if quick else self.steps)


@contextmanager
def open_sides(duel: Duel, steps: int) -> Iterator[Sides]:
    """See `Duel.open`."""
    ours = count(1)
    theirs = {side: partial(_next_of_theirs, duel, steps, count(1), side) for side in DRIVERS}
    with TemporaryDirectory(prefix="gmi-drl-bench-") as folder:
        yield {"gmi-drl": lambda: train_ours(duel, steps, next(ours), Path(folder)), **theirs}


def train_ours(duel: Duel, steps: int, seed: int, folder: Path) -> Sample:
    """One training with one GMI on one core."""
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.hardware.node import Cpu, Node
    from gmi_drl.launch.task_info import task_spec
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.scheduler.plan import plan

    node = Node(name="one core", cpu=Cpu(cores=1, memory_gib=this_node().cpu.memory_gib))
    layout = plan(task_spec(duel.task), node, num_env=NUM_ENV, gmis_per_gpu=1)
    rows = learning.train(layout, duel.config(steps, seed), RunFolder(folder / str(seed), stays=False))
    seconds = seconds_of(rows)
    evaluated = [(row["env_steps"], row["eval_return_mean"]) for row in rows if "eval_return_mean" in row]
    details = {"seed": seed, **_returns(evaluated), "training_s": seconds}
    return Sample(rows[-1]["env_steps"] / seconds, details)


def seconds_of(rows: Sequence[Mapping[str, Any]]) -> float:
    """The seconds of a training by the clock, as peers tell theirs: with all but evaluations."""
    steps = [row["env_steps"] for row in rows]
    return float(
        sum((now - last) / row["steps_per_second"] for last, now, row in zip([0, *steps], steps, rows, strict=False))
    )


def _next_of_theirs(duel: Duel, steps: int, seeds: Iterator[int], side: str) -> Sample:
    return train_theirs(duel, steps, next(seeds), side)


def train_theirs(duel: Duel, steps: int, seed: int, side: str) -> Sample:
    """One training by one of `DRIVERS`."""
    more = ["--algo", duel.algo, "--env-steps", str(steps), "--seed", str(seed)]
    more += ["--learning-starts", str(min(duel.starts, steps // 2))]
    peer, driver = DRIVERS[side]
    updates = peers.train(peer, num_env=1, threads=1, seconds=PEER_SECONDS, driver=driver, more=more)
    if len(updates) < 2 or updates[-2].env_steps < steps:
        raise GmiError(f"{side} did not do {steps} steps in {PEER_SECONDS:.0f} s")
    trained, evaluated = (
        updates[-2],
        [(one.env_steps, one.return_mean) for one in updates if one.return_mean is not None],
    )
    details = {"seed": seed, **_returns(evaluated), "training_s": trained.wall_s}
    return Sample(trained.env_steps / trained.wall_s, details)


def _returns(evaluated: Sequence[tuple[int, float]]) -> dict[str, Any]:
    """Details of a sample, from steps and mean returns of all evaluations."""
    values = [value for _, value in evaluated]
    late, curve = values[-LATE:], {learning.STEPS: [at for at, _ in evaluated], "return": values}
    return {"return": late[-1], "late_return": sum(late) / len(late), "best_return": max(values), CURVES: curve}


def _obstacle() -> str | None:
    lacks = requirements.package("mujoco", "mujoco") or requirements.package("gymnasium", "gymnasium")
    return lacks or next(filter(None, (peers.obstacle(*driver) for driver in DRIVERS.values())), None)


DUELS: dict[str, Duel] = {
    "dqn_cartpole": Duel(
        "dqn", "gymnasium:CartPole-v1", 50_000, 4_000, 1_000, 0.5, {"double": False}, {"next_obs": "twice"}
    ),
    "sac_half_cheetah": Duel("sac", "mujoco:HalfCheetah-v5", 300_000, 1_000, 10_000, 1.0),
}

CASES = tuple(
    Case(
        name=name,
        claim=f"{duel.algo.upper()} on {duel.task} by the settings of RL Baselines3 Zoo, {duel.steps:,} steps on one "
        f"core: steps per second of training, and the mean return of {EPISODES} episodes without "
        "noise after it, by gmi-drl with 8 environments, by Stable-Baselines3, torchrl and a loop in the manner of "
        "CleanRL with one. Networks, batch and updates per step are the same.",
        unit="steps/s",
        open=duel.open,
        obstacle=_obstacle,
        limits="Of a few seeds; returns jump from one evaluation to the next, so see `late_return`, the mean of the "
        f"last {LATE}, and `best_return`. gmi-drl acts in 8 environments for 32 steps before each set of updates. Its "
        "DQN is not double here, and learns from steps that a time limit ended, as Stable-Baselines3's; its SAC does "
        "not learn from these. CleanRL's loop has arrays of numpy as replay. torchrl does 1000 steps of SAC before "
        "each set of updates, as its own script; its standard deviations are a softplus, actor and critics learn at "
        "once.",
        repeats=3,
    )
    for name, duel in DUELS.items()
)
