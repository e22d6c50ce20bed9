"""SRL's Table 1 in kind: frames/s that trainers learn from, by workers, TCG_EX and other libraries.

Each side is swept: all numbers of environments are tried, then its processes and its trainers, threads or learners rise
until the rate stops growing. A rate has at least a whole update after a warm-up. With `--repeats 1` a column takes half
an hour on two cores: at most 35 trainings of 20 seconds, 5 to 25 for the start of each, and five of 60 seconds. The
bound takes another minute.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import Case, Sample, Side, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.core_bound import core_bound
from gmi_drl.benchmarks.cases.common.sessions import of_layouts
from gmi_drl.benchmarks.cases.common.shapes import PeerShape, Shape, climbed
from gmi_drl.benchmarks.cases.common.worker_run import QUICK_WARM_UP_S, layout_of, rates
from gmi_drl.benchmarks.cases.peers import pong_speed, ppo_ant_v5
from gmi_drl.errors import GmiError
from gmi_drl.gmi.inventory import allowed_cores
from gmi_drl.gmi.inventory.core_load import busy_s

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout

SLEEPING = "gmi_drl.benchmarks.cases.common.sleeping"
SLEEPING_SAMPLES = 256
"""Of an update where environments sleep: two processes have 2048 in more than half a minute."""
RLLIB, SAMPLE_FACTORY = "rllib", "sample_factory"
SWEEP_S, SECONDS, QUICK_SECONDS = 20.0, 60.0, 5.0
WARM_UP_UPDATES, QUICK_SAMPLES = 2, 32
"""Samples of an update with tiny sizes: few, as an actor whose environments sleep has 25 to 27 a second."""
WORKERS_WARM_UP_S = 15.0
"""Before workers are measured: until their channels are full, trainers have the shared cores for themselves."""
NUM_ENVS = (8, 32, 64)
SWEEP_UPDATES = 5
"""Updates for which a sweep has time where environments sleep."""


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Args:
        task: Ours.
        env_id: Of the peers.
        frames: Of a step.
        samples: Of an update.
        num_envs: Environments in all that are tried, from few to many; multiples of the processes with environments.
        processes: With environments: what is tried, from few to many.
        config: Ours, by the environments of an actor and the steps of a rollout.
        drivers: Of the peers.
        runners: Of RLlib: what is tried beside `processes`.
        settings: Of the drivers, or None for those of Ant-v5.
        is_bounded: Whether the cores set a bound: environments that sleep have none.
    """

    task: str
    env_id: str
    frames: int
    samples: int
    num_envs: tuple[int, ...]
    processes: tuple[int, ...]
    config: "Callable[[int], RunConfig]"
    drivers: Mapping[str, str]
    runners: tuple[int, ...] = (3,)
    settings: Mapping[str, Any] | None = None
    is_bounded: bool = True

    def sweep_s(self, processes: int) -> float:
        """Seconds in which so many processes have `SWEEP_UPDATES` updates if all environments of one sleep in turn.

        At least `SWEEP_S`.
        """
        from gmi_drl.benchmarks.cases.common import sleeping  # imports gymnasium, which not every case needs

        step_s = sleeping.FRAME_S.get(self.env_id, 0.0)
        return max(SWEEP_S, SWEEP_UPDATES * self.samples * step_s / processes)


def pong_config(horizon: int) -> "RunConfig":
    """Pong's settings with 4 epochs."""
    return _with_horizon(pong_speed.our_config(pong_speed.NUM_ENVS[0], pong_speed.EPOCHS), horizon)


def vector_config(horizon: int) -> "RunConfig":
    """The peers' settings of Ant-v5."""
    return _with_horizon(ppo_ant_v5.our_config(pong_speed.NUM_ENVS[0]), horizon)


def _with_horizon(config: "RunConfig", horizon: int) -> "RunConfig":
    learner = config.learner.model_copy(update={"horizon": horizon})
    return config.model_copy(update={"learner": learner})


def opener(column: Column) -> Callable[[bool], AbstractContextManager[Sides]]:
    """The opener of ours and of all peers whose environment is there."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        of = replace(column, samples=QUICK_SAMPLES) if quick else column
        ours = {
            "workers, inline": _workers(of, 0, quick),
            "workers, remote": _workers(of, 1, quick),
            "TCG_EX": _together(of, quick),
        }
        bound = {"bound": _bound(of, quick)} if of.is_bounded else {}
        there = {} if quick else {one: name for one, name in column.drivers.items() if not peers.obstacle(one, name)}
        yield {**ours, **bound, **{peer: _peer(column, peer, driver) for peer, driver in there.items()}}

    return open_sides


def worker_layout(column: Column, shape: Shape, policies: int, cores: int) -> "tuple[Layout, int]":
    """The layout of a shape, and the steps of a rollout with which an update has the samples of the column."""
    each = shape.num_env // shape.actors
    horizon = column.samples // (shape.trainers * -(-shape.actors // shape.trainers) * each)
    workers = {"actors": shape.actors, "policies": policies, "trainers": shape.trainers}
    return layout_of(column.task, each, **workers, cores=cores, are_free=True), horizon


def _workers(column: Column, policies: int, quick: bool) -> Side:
    cores = len(allowed_cores())

    def train(shape: Shape, seconds: float) -> Sample:
        layout, horizon = worker_layout(column, shape, policies, cores)
        warm_up_s = QUICK_WARM_UP_S if quick else WORKERS_WARM_UP_S
        config = column.config(horizon)
        sample = rates(layout, config, seconds, warm_up_s)
        return _in_frames(column, sample, {**vars(shape), "weights": weights_of(column, config)})

    choices = {"num_env": column.num_envs, "actors": column.processes, "trainers": sorted({1, cores})}
    return _at_best(train, Shape(column.num_envs[0], column.processes[0]), choices, column, quick)


def _together(column: Column, quick: bool) -> Side:
    """A GMI of TCG_EX on each core."""
    cores = len(allowed_cores())

    def train(shape: Shape, seconds: float) -> Sample:
        each = shape.num_env // cores
        layout = ppo_ant_v5.our_layout(column.task, shape.num_env, cores)
        config = column.config(column.samples // shape.num_env)
        with of_layouts({column.task: layout}, config) as sessions:
            sessions[column.task].measure(each, QUICK_WARM_UP_S)
            measured, busy = _with_busy(lambda: sessions[column.task].measure(each, seconds))
        cpu_s = 1e6 * busy / measured.steps_per_second
        sample = Sample(measured.steps_per_second, dict(measured.phases))
        more = {"num_env": shape.num_env, "weights": weights_of(column, config), "cpu_s_per_million_steps": cpu_s}
        return _in_frames(column, sample, more)

    return _at_best(train, Shape(column.num_envs[0], cores), {"num_env": column.num_envs}, column, quick)


def _bound(column: Column, quick: bool) -> Side:
    """What all cores could do at most, at the number of environments of one core for which that is most."""

    def train(shape: Shape, seconds: float) -> Sample:
        layout = ppo_ant_v5.our_layout(column.task, shape.num_env, 1)
        config = column.config(column.samples // shape.num_env)
        sample = core_bound(layout, config, len(allowed_cores()), seconds)
        return _in_frames(column, sample, {"num_env": shape.num_env, "weights": weights_of(column, config)})

    return _at_best(train, Shape(column.num_envs[0]), {"num_env": column.num_envs}, column, quick)


def weights_of(column: Column, config: "RunConfig") -> int:
    """Parameters of the policy and the value that ours train."""
    from gmi_drl.launch.task_info import task_spec

    return task_spec(column.task).num_weights(config.learner.network)


def _peer(column: Column, peer: str, driver: str) -> Side:
    cores = len(allowed_cores())

    def train(shape: PeerShape, seconds: float) -> Sample:
        num_env = shape.num_env - shape.num_env % shape.runners
        sizes = {"num_env": num_env, "threads": shape.threads}
        learners = {"learners": shape.learners} if peer == RLLIB else {}
        if column.settings is None:
            given = {"env-id": column.env_id, "samples": column.samples, "runners": shape.runners, **learners}
            more = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        else:
            changed = {"epochs": pong_speed.EPOCHS, "horizon": column.samples // num_env, "runners": shape.runners}
            more = ["--settings", json.dumps({**column.settings, **changed, **learners})]
        updates = peers.train(peer, driver=driver, more=more, seconds=seconds, **sizes)
        warm_up = 1 if seconds < SECONDS else WARM_UP_UPDATES
        first, last = updates[warm_up - 1], updates[-1]
        cpu_s = 1e6 * (last.cores_s - first.cores_s) / max(1, last.env_steps - first.env_steps)
        sample = Sample(peers.speed(updates, warm_up), {"weights": last.weights, "packages": peers.packages(peer)})
        return _in_frames(column, sample, {**vars(shape), "num_env": num_env, "cpu_s_per_million_steps": cpu_s})

    choices: dict[str, Sequence[int]] = {"num_env": column.num_envs, "runners": column.processes}
    if peer == RLLIB:
        choices["runners"] = sorted({*column.processes, *column.runners})
        choices["threads"] = choices["learners"] = sorted({1, cores})
    return _at_best(train, PeerShape(column.num_envs[0], column.processes[0]), choices, column, quick=False)


def _in_frames(column: Column, sample: Sample, more: Mapping[str, Any]) -> Sample:
    """Frames/s, each step of which has several."""
    return Sample(sample.value * column.frames, {**sample.details, **more})


def _with_busy(measure: Callable[[], Any]) -> tuple[Any, float]:
    """What is measured, and how many cores of this process were busy meanwhile, on average."""
    cores = set(allowed_cores())
    before_s, began = busy_s(cores), time.perf_counter()
    measured = measure()
    return measured, (busy_s(cores) - before_s) / (time.perf_counter() - began)


def _at_best(
    train: Callable[[Any, float], Sample],
    first: Any,
    choices: Mapping[str, Sequence[int]],
    column: Column,
    quick: bool,
) -> Side:
    """A side that trains by its best shape of a sweep."""

    def brief(shape: Any) -> float:
        try:
            return train(shape, column.sweep_s(shape.processes)).value
        except GmiError:  # it does not run, or has too few updates: not the best
            return 0.0

    best, sweep = (first, dict[str, float]()) if quick else climbed(first, choices, brief)

    def measure() -> Sample:
        sample = train(best, QUICK_SECONDS if quick else SECONDS)
        return replace(sample, details={**sample.details, "sweep": sweep})

    return measure


def _obstacle(package: str) -> Callable[[], str | None]:
    uneven = "environments do not divide among the cores: narrow them (taskset) to 1, 2, 4 or 8"
    return lambda: requirements.package(package, package) or (uneven if 8 % len(allowed_cores()) else None)


PONG = Column(
    pong_speed.TASK,
    "Pong-v5",
    4,
    pong_speed.SAMPLES,
    NUM_ENVS,
    (1, 2, 4),
    pong_config,
    {RLLIB: "atari_rllib", SAMPLE_FACTORY: "atari_sample_factory"},
    settings=pong_speed.SETTINGS,
)
DRIVERS = {RLLIB: "train_rllib", SAMPLE_FACTORY: "train_sample_factory"}


def vector_column(task: str, env_id: str) -> Column:
    """A column with the settings of Ant-v5."""
    return Column(task, env_id, 1, ppo_ant_v5.SAMPLES, NUM_ENVS, (1, 2, 4), vector_config, DRIVERS)


def sleeping_column(name: str) -> Column:
    """Environments that sleep, with the settings of Ant-v5 and smaller updates.

    One process, which has half the rate of two, is not tried, and few numbers of environments, which hardly matter.
    """
    task = f"gymnasium:{SLEEPING}:{name}"
    return Column(task, name, 1, SLEEPING_SAMPLES, NUM_ENVS[:2], (2, 4, 8), vector_config, DRIVERS, is_bounded=False)


COLUMNS = {
    "": (PONG, "Pong, as SRL's Atari, 4 frames a step, 4 epochs", "envpool"),
    "_half_cheetah": (
        vector_column("gymnasium:HalfCheetah-v5", "HalfCheetah-v5"),
        "HalfCheetah-v5 by gymnasium's own environments",
        "gymnasium",
    ),
    "_football_like": (
        sleeping_column("FootballLike-v0"),
        "environments that sleep as long as Google Research Football and are as wide; not the game",
        "gymnasium",
    ),
    "_smac_like": (
        sleeping_column("SmacLike-v0"),
        "environments that sleep as long as SMAC and are as wide; not the game",
        "gymnasium",
    ),
}

CASES = tuple(
    Case(
        name=f"srl_table_1{name}",
        claim=f"SRL's Table 1 in kind: {what}; frames/s that trainers learn from by PPO on all cores of this process: "
        "workers with inline and with remote inference, TCG_EX, and other libraries, each at its best numbers of "
        f"environments, processes, threads and learners; {column.samples} samples an update.",
        unit="frames/s",
        open=opener(column),
        obstacle=_obstacle(package),
        reference="SRL (arXiv 2306.16688), Table 1, 8 A100: 2.29x RLlib (Atari), 1.92x (DMLab), 3.27x (Football), "
        "1.82x (SMAC) at equal cores",
        limits="Peers are missing where their environment is (benchmarks/peers/setup.py rllib sample_factory). "
        "Workers share cores where there are more workers. At most 8 processes step environments that sleep: with "
        "more every side would be faster. RLlib with 3 runners has a few environments and samples fewer. The bound is "
        "computed: the cores divided by what one, alone, takes for the simulation, the forward pass and the update of "
        "a step; caches and memory that cores share are not in it. Returns are not compared.",
        repeats=3,
    )
    for name, (column, what, package) in COLUMNS.items()
)
