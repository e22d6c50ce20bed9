"""PPO on Atari's Pong: environment steps per second by gmi-drl and by the usual libraries, at equal cores."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import Case, Sample, Side, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.sessions import of_layouts
from gmi_drl.errors import GmiError
from gmi_drl.gmi.inventory import allowed_cores

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout

TASK = "envpool:Pong-v5"
SAMPLES, MINI_BATCH = 1024, 256
SETTINGS: dict[str, Any] = {
    "env_id": "Pong-v5",
    "steps": 10**9,
    "samples": SAMPLES,
    "batch": MINI_BATCH,
    "learning_rate": 2.5e-4,
    "gamma": 0.99,
    "lam": 0.95,
    "clip": 0.1,
    "entropy": 0.01,
    "value": 0.5,
    "max_grad_norm": 0.5,
    "conv": ((32, 8, 4), (64, 4, 2), (64, 3, 1)),
    "features": 512,
    "hidden": (),
}
"""What all sides train by; the drivers' `--settings`."""

NUM_ENVS = (8, 16, 32, 64)
RUNNERS = (1, 2, 4)
PEERS = {
    "cleanrl_envpool": "atari_cleanrl",
    "sb3_games": "atari_sb3",
    "rllib": "atari_rllib",
    "sample_factory": "atari_sample_factory",
}
"""The environment of each peer, and its driver."""

WITH_RUNNERS, OF_ONE_THREAD = ("rllib", "sample_factory"), ("sample_factory",)
"""Peers whose environments are in processes of their own, and those whose learner always has one thread."""

SWEEP_S, SECONDS, QUICK_SECONDS = 30.0, 60.0, 20.0
WARM_UP_UPDATES = 2
EPOCHS = 4


@dataclass(frozen=True)
class Setting:
    """What a sweep varies: environments in all, torch threads of the learner, processes with environments."""

    num_env: int
    threads: int = 1
    runners: int = 1

    def __str__(self) -> str:
        return f"{self.num_env} environments, {self.threads} threads, {self.runners} runners"


Shape = TypeVar("Shape", bound=Any)


def fastest(
    first: Shape, choices: Mapping[str, Sequence[Any]], measure: Callable[[Shape], float]
) -> tuple[Shape, dict[str, float]]:
    """The best setting, found one number after the other from `first` on; and all speeds."""
    best, speeds = first, dict[Shape, float]()
    for name, values in choices.items():
        for setting in (replace(best, **{name: value}) for value in values):
            if setting not in speeds:
                speeds[setting] = measure(setting)
        best = max(speeds, key=lambda setting: speeds[setting])
    return best, {str(setting): speed for setting, speed in speeds.items()}


def opener(epochs: int) -> Callable[[bool], AbstractContextManager[Sides]]:
    """The opener of ours, one GMI on each core, and of all peers whose environment is there."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        theirs = {peer: _peer_side(peer, epochs, quick) for peer in PEERS if not peers.obstacle(peer, PEERS[peer])}
        yield {"gmi-drl": _our_side(epochs, quick), **theirs}

    return open_sides


@contextmanager
def open_precisions(quick: bool) -> Iterator[Sides]:
    """Ours in float32 and in bfloat16."""
    yield {"float32": _our_side(EPOCHS, quick), "bf16": _our_side(EPOCHS, quick, bf16=True)}


@contextmanager
def open_cuts(quick: bool) -> Iterator[Sides]:
    """One GMI with a thread for each core, and a GMI for each core."""
    yield {"one GMI": _our_side(EPOCHS, quick, gmis=1), "a GMI for each core": _our_side(EPOCHS, quick)}


def our_config(num_env: int, epochs: int, bf16: bool = False) -> "RunConfig":
    """The settings as ours, for `num_env` environments in all."""
    from gmi_drl.config.learners import PPOConfig
    from gmi_drl.config.run_config import RunConfig

    learner = PPOConfig(
        hidden=(),
        activation="relu",
        conv=SETTINGS["conv"],
        features=SETTINGS["features"],
        bf16=bf16,
        horizon=SAMPLES // num_env,
        epochs=epochs,
        minibatches=SAMPLES // MINI_BATCH,
        learning_rate=SETTINGS["learning_rate"],
        schedule="fixed",
        gamma=SETTINGS["gamma"],
        lam=SETTINGS["lam"],
        clip=SETTINGS["clip"],
        entropy_coef=SETTINGS["entropy"],
        value_loss_coef=SETTINGS["value"],
        clip_value_loss=False,
        max_grad_norm=SETTINGS["max_grad_norm"],
    )
    return RunConfig(hang_s=60, learner=learner)


def our_layout(num_env: int, gmis: int, cores: int) -> "Layout":
    """All cores, divided evenly among so many GMIs; each has a thread for each of its cores."""
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.layout.layout import GMI, Device, Layout
    from gmi_drl.templates import TCG_EX

    ids, each = tuple(range(gmis)), cores // gmis
    members = tuple(
        GMI(id=n, num_env=num_env // gmis, cores=tuple(range(n * each, (n + 1) * each)), threads=each) for n in ids
    )
    return Layout(
        task=TASK,
        template=TCG_EX.name,
        devices=(Device(kind="cpu", gmis=members),),
        groups=TCG_EX.groups([ids], this_node().model_copy(update={"gpus": None})),
    )


def _our_side(epochs: int, quick: bool, gmis: int | None = None, bf16: bool = False) -> Side:
    cores = len(allowed_cores())
    count = gmis or cores

    def train(setting: Setting, seconds: float) -> Sample:
        from gmi_drl.launch.task_info import task_spec

        config = our_config(setting.num_env, epochs, bf16)
        with of_layouts({TASK: our_layout(setting.num_env, count, cores)}, config) as sessions:
            measured = sessions[TASK].measure(setting.num_env // count, seconds)
        weights = task_spec(TASK).num_weights(config.learner.network)
        shape = {"num_env": setting.num_env, "gmis": count, "threads": cores // count, "weights": weights}
        return Sample(measured.steps_per_second, {**shape, **measured.phases})

    return _at_best(train, {"num_env": NUM_ENVS}, quick)


def _peer_side(peer: str, epochs: int, quick: bool) -> Side:
    cores = len(allowed_cores())

    def train(setting: Setting, seconds: float) -> Sample:
        changed = {"epochs": epochs, "horizon": SAMPLES // setting.num_env, "runners": setting.runners}
        more = ["--settings", json.dumps(SETTINGS | changed)]
        sizes = {"num_env": setting.num_env, "threads": setting.threads}
        updates = peers.train(peer, driver=PEERS[peer], more=more, seconds=seconds, **sizes)
        speed = peers.speed(updates, 1 if seconds < SECONDS else WARM_UP_UPDATES)
        shape = {"num_env": setting.num_env, "threads": setting.threads, "weights": updates[-1].weights}
        return Sample(speed, {**shape, "runners": setting.runners, "packages": peers.packages(peer)})

    choices: dict[str, Sequence[int]] = {"num_env": NUM_ENVS}
    if peer in WITH_RUNNERS:
        choices["runners"] = RUNNERS
    if peer not in OF_ONE_THREAD:
        choices["threads"] = (1, cores)
    return _at_best(train, choices, quick)


def _at_best(train: Callable[[Setting, float], Sample], choices: dict[str, Sequence[int]], quick: bool) -> Side:
    """A side that trains by its best setting of a sweep."""

    def brief(setting: Setting) -> float:
        try:
            return train(setting, SWEEP_S).value
        except GmiError:  # too slow for a second update, or it does not run: not the best
            return 0.0

    first = Setting(NUM_ENVS[0])
    best, sweep = (first, dict[str, float]()) if quick else fastest(first, choices, brief)

    def measure() -> Sample:
        sample = train(best, QUICK_SECONDS if quick else SECONDS)
        return replace(sample, details={**sample.details, "sweep": sweep})

    return measure


def _obstacle() -> str | None:
    cores = len(allowed_cores())
    uneven = f"environments do not divide among {cores} cores: narrow them (taskset) to 1, 2, 4 or 8"
    return requirements.package("envpool", "envpool") or (uneven if NUM_ENVS[0] % cores else None)


LIMITS = (
    "Peers are missing where their environment is (benchmarks/peers/setup.py cleanrl_envpool sb3_games rllib "
    "sample_factory). Sample Factory trains asynchronously, the rest do not. envpool steps the games of gmi-drl and of "
    "CleanRL's loop, ale-py those of the others. Returns are not compared. Ray's processes detach from their parent, "
    "so they count as other processes."
)
SETTING = (
    f"{SAMPLES} samples an update, mini-batches of {MINI_BATCH}, one network of Mnih et al. for policy and value, "
    "whose weights are counted on each side"
)


def case(name: str, epochs: int) -> Case:
    """The case of so many epochs."""
    return Case(
        name=name,
        claim=f"PPO on Pong ({TASK}), {epochs} epoch{'s' if epochs > 1 else ''}: environment steps per second while "
        "training on all cores of this process, each library at its best number of environments, threads and "
        f"processes; {SETTING}.",
        unit="steps/s",
        open=opener(epochs),
        obstacle=_obstacle,
        limits=LIMITS,
    )


CASES = (
    case("pong_speed", EPOCHS),
    case("pong_speed_1_epoch", 1),
    Case(
        name="pong_bf16",
        claim=f"PPO on Pong by gmi-drl with `learner.bf16`, a GMI for each core, against float32; {SETTING}.",
        unit="steps/s",
        open=open_precisions,
        obstacle=lambda: requirements.bf16_on_cores() or _obstacle(),
        limits="Faster on cores with AMX alone. Returns are not compared.",
        is_baseline_first=True,
    ),
    Case(
        name="pong_gmis",
        claim=f"PPO on Pong by a GMI for each core, against one GMI with a thread for each; {SETTING}.",
        unit="steps/s",
        open=open_cuts,
        obstacle=lambda: requirements.cores(2) or _obstacle(),
        limits="Each at its best number of environments.",
        is_baseline_first=True,
    ),
)
