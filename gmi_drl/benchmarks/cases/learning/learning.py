"""Whether policies learn our tasks: for each seed a training as by `make train`, played before and after.

A training has a number of steps, not of minutes, so that returns do not depend on the machine.
"""

import math
import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import accumulate, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import CURVES, Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cores import all_cores

if TYPE_CHECKING:
    from gmi_drl.algo.policy import ActingAgent
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.run.metrics import Row

NUM_ENV = 256
QUICK_STEPS = 40_960
PLAYED, QUICK_PLAYED = 64, 2
"""Environments in which a policy is played for an episode."""

TUNED = "The hyper-parameters were chosen on seed 0, which is not among these, by one run for each choice."
STEPS, SECONDS, REWARD = "environment steps", "seconds of training", "reward of a step"


def opener(task: str, steps: int) -> Callable[[bool], AbstractContextManager[Sides]]:
    """The opener of one side, whose seeds are 1, 2, 3 and so on."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        env_steps, num_env = (QUICK_STEPS, QUICK_PLAYED) if quick else (steps, PLAYED)
        seeds = count(1)
        with TemporaryDirectory(prefix="gmi-drl-bench-") as folder:
            yield {"gmi-drl": lambda: learn(task, env_steps, num_env, next(seeds), Path(folder))}

    return open_sides


def learn(task: str, steps: int, played: int, seed: int, folder: Path) -> Sample:
    """Train on this machine's cores, cut evenly, and play the last and the first policy in `played` environments.

    Curves show the reward of a step, not returns: the first episodes of a training are cut short to stagger them, which
    would look like learning in a curve of returns.
    """
    from gmi_drl.config.run_config import default_config
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.roles.serving.player import initial_agent, load_agent
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.scheduler.plan import plan
    from gmi_drl.workload import TASK_SPECS

    spec, cores = TASK_SPECS[task], this_node().model_copy(update={"gpus": None})
    layout, config = plan(spec, cores, num_env=NUM_ENV), default_config(spec)
    iterations = math.ceil(steps / (layout.num_env * config.learner.horizon))
    config = config.model_copy(update={"seed": seed, "iterations": iterations})
    run = RunFolder(folder / str(seed), stays=False)
    rows = train(layout, config, run)
    untrained, trained = (
        play(task, agent, played) for agent in (initial_agent(spec, config), load_agent(run, spec, config))
    )
    curves = {
        STEPS: [row["env_steps"] for row in rows],
        SECONDS: wall_s(rows),
        REWARD: [round(row["reward_mean"], 4) for row in rows],
    }
    details = {
        "seed": seed,
        "untrained": statistics.fmean(untrained),
        "untrained_median": statistics.median(untrained),
        "trained_median": statistics.median(trained),
        **phases_of(rows),
        CURVES: curves,
    }
    return Sample(statistics.fmean(trained), details)


def train(layout: "Layout", config: "RunConfig", run: "RunFolder") -> "list[Row]":
    """Run one training in a new folder. Returns its metrics."""
    from gmi_drl.launch.job import resolve
    from gmi_drl.launch.training import train as launch
    from gmi_drl.run.metrics import read_metrics

    run.create()
    outcome = launch(resolve(layout, config, run))
    if outcome.signal is not None:
        raise SystemExit(128 + outcome.signal)
    return read_metrics(run.metrics_file)


def play(task: str, agent: "ActingAgent", num_env: int) -> list[float]:
    """Play one episode in each of `num_env` environments, always the same ones, without noise. Returns the returns."""
    from gmi_drl.gmi.inventory import allowed_cores
    from gmi_drl.roles.serving.player import Player
    from gmi_drl.tasks import make

    with all_cores(), closing(make(task, num_env=num_env, threads=len(allowed_cores()))) as played:
        player = Player(played, agent)
        for _ in range(played.spec.episode_steps):
            player.step()
    firsts = {episode.env: episode.total for episode in reversed(player.finished)}
    return list(firsts.values())


def wall_s(rows: "list[Row]") -> list[float]:
    """Seconds of training up to each row."""
    per_iteration = rows[0]["env_steps"]
    return [round(seconds, 3) for seconds in accumulate(per_iteration / row["steps_per_second"] for row in rows)]


def phases_of(rows: "list[Row]") -> dict[str, float]:
    """Environment steps and seconds in all; medians of the speed and of the phases' seconds."""
    from gmi_drl.run.phases import PHASE_NAMES

    medians = {name: statistics.median(row[name] for row in rows) for name in ("steps_per_second", *PHASE_NAMES)}
    return {"env_steps": rows[-1]["env_steps"], "training_s": wall_s(rows)[-1], **medians}


def case(task: str, name: str, steps: int, repeats: int, limits: str = TUNED) -> Case:
    """The case of one task."""
    return Case(
        name=name,
        claim=f"{task} from scratch, {steps:,} steps of all environments for each of {repeats} seeds, with a GMI of "
        f"{NUM_ENV} environments on each core: the mean return of whole episodes that the trained policy plays, "
        f"without noise, in {PLAYED} environments. `untrained` is that of the first policy.",
        unit="return",
        open=opener(task, steps),
        obstacle=lambda: requirements.package("mujoco", "mujoco"),
        limits=limits,
        repeats=repeats,
    )


CASES = (
    case(
        "ant",
        "learning_ant",
        steps=1_200_000,
        repeats=5,
        limits="The seeds (1 to 5) were fixed before the first run. The hyper-parameters were chosen on seed 0, except "
        "for one trial on seed 5. The staggering of first episodes was added after a first set of curves on the same "
        "seeds.",
    ),
    case("anymal", "learning_anymal", steps=1_600_000, repeats=3),
    case("ball_balance", "learning_ball_balance", steps=1_000_000, repeats=3),
    case("franka_cabinet", "learning_franka_cabinet", steps=2_200_000, repeats=3),
    case("humanoid", "learning_humanoid", steps=3_000_000, repeats=3),
    case(
        "shadow_hand",
        "learning_shadow_hand",
        steps=2_000_000,
        repeats=3,
        limits="The hyper-parameters were chosen on seed 0 by one run for each choice, after 5 minutes with others had "
        "ended below the first policy on seeds 1 to 3 (172). The first policy, without noise, leaves the block where "
        "it falls. In a few environments it falls near its goal, and the return is high: so `untrained_median` and "
        "`trained_median` are medians over the environments. How far the block is turned is not measured.",
    ),
)
