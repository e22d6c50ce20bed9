"""PPO on gymnasium's Ant-v5: gmi-drl against the libraries that people train it with."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from gmi_drl.bench import peers
from gmi_drl.bench.case import Case, Sample, Side, Sides
from gmi_drl.bench.cases import needs
from gmi_drl.gmi.inventory import allowed_cores

if TYPE_CHECKING:
    from gmi_drl.config import RunConfig
    from gmi_drl.layout import Layout
    from gmi_drl.profiler.session import Session

PEERS = ("sb3", "rllib", "sample_factory", "cleanrl_envpool")
SAMPLES, EPOCHS, MINIBATCHES, HIDDEN = 2048, 4, 4, (256, 128, 64)
NUM_ENV, QUICK_NUM_ENV = (16, 32, 64, 128, 256), (32,)
PEER_NUM_ENV, QUICK_PEER_NUM_ENV = (8, 16, 32, 64), (16,)
SWEEP_S, SECONDS, QUICK_SECONDS = 20.0, 30.0, 15.0
WARM_UP_UPDATES = 2
ROLE = "gmi_drl.bench.cases.ant_v5_probe:AntV5Probe"

Setting = tuple[int, int]
"""Environments in all, and torch threads of each process that learns."""


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """Every side at the setting that a short sweep found best for it. Ours stays alive, at rest while others run."""
    seconds = QUICK_SECONDS if quick else SECONDS
    with ExitStack() as life:
        ours = _our_side(life, our_settings(quick), seconds)
        yield {"gmi-drl": ours, **{peer: _peer_side(peer, peer_settings(peer, quick), seconds) for peer in PEERS}}


def our_settings(quick: bool) -> list[Setting]:
    """What our sweep tries: every GMI has a core, and so one thread."""
    return [(num_env, 1) for num_env in (QUICK_NUM_ENV if quick else NUM_ENV)]


def peer_settings(peer: str, quick: bool) -> list[Setting]:
    """What a peer's sweep tries. Sample Factory's learner has one thread, whatever it is told."""
    threads = {1} if quick or peer == "sample_factory" else {1, len(allowed_cores())}
    return [(num_env, count) for num_env in (QUICK_PEER_NUM_ENV if quick else PEER_NUM_ENV) for count in threads]


def our_layout(num_env: int, cores: int) -> "Layout":
    """One holistic GMI per core."""
    from gmi_drl.layout import GMI, Device, Layout

    ids = tuple(range(cores))
    gmis = tuple(GMI(id=core, num_env=num_env // cores, cores=(core,)) for core in ids)
    return Layout(
        algo="ppo",
        template="TCG_EX",
        reduction="none" if cores == 1 else "MPR-shm",
        devices=(Device(kind="cpu", gmis=gmis),),
        groups={"trainers": ids},
    )


def our_config(num_env: int) -> "RunConfig":
    """The peers' hyper-parameters (`benchmarks/peers/settings.py`)."""
    from gmi_drl.config import PPOConfig, RunConfig

    ppo = PPOConfig(
        hidden=HIDDEN,
        horizon=SAMPLES // num_env,
        epochs=EPOCHS,
        minibatches=MINIBATCHES,
        learning_rate=3e-4,
        schedule="fixed",
        value_loss_coef=0.5,
        clip_value_loss=False,
        max_grad_norm=0.5,
        init_std=1.0,
    )
    return RunConfig(hang_s=60, ppo=ppo)


def fastest(settings: list[Setting], measure: Callable[[Setting], float]) -> tuple[Setting, dict[str, float]]:
    """The best setting, and what each gave, for the details. One alone is not measured."""
    if len(settings) == 1:
        return settings[0], {}
    speeds = {setting: measure(setting) for setting in settings}
    best = max(speeds, key=lambda setting: speeds[setting])
    return best, {f"{num_env} environments, {threads} threads": speed for (num_env, threads), speed in speeds.items()}


def _our_side(life: ExitStack, settings: list[Setting], seconds: float) -> Side:
    def brief(setting: Setting) -> float:
        with _session(setting[0]) as session:
            return session.measure(setting[0] // len(allowed_cores()), SWEEP_S).steps_per_second

    (num_env, threads), sweep = fastest(settings, brief)
    session = life.enter_context(_session(num_env))

    def measure() -> Sample:
        measured = session.measure(num_env // len(allowed_cores()), seconds)
        details = {"num_env": num_env, "threads": threads, "sweep": sweep, **measured.phases}
        return Sample(measured.steps_per_second, details)

    return measure


def _session(num_env: int) -> "Session":
    from gmi_drl.bench.ant_v5 import ANT_V5
    from gmi_drl.profiler.session import Session

    layout = our_layout(num_env, len(allowed_cores()))
    return Session(layout, our_config(num_env), role=ROLE, bucket_bytes=ANT_V5.spec.bucket_bytes(HIDDEN))


def _peer_side(peer: str, settings: list[Setting], seconds: float) -> Side:
    def brief(setting: Setting) -> float:
        updates = _train(peer, setting, SWEEP_S)
        return peers.speed(updates, warm_up=1) if len(updates) > 1 else 0.0  # too slow to be the best

    best, sweep = fastest(settings, brief)
    return partial(_measure_peer, peer, best, sweep, seconds)


def _measure_peer(peer: str, best: Setting, sweep: dict[str, float], seconds: float) -> Sample:
    updates = _train(peer, best, seconds)
    details = {"num_env": best[0], "threads": best[1], "sweep": sweep, "return_mean": updates[-1].return_mean}
    return Sample(peers.speed(updates, WARM_UP_UPDATES), details)


def _train(peer: str, setting: Setting, seconds: float) -> list[peers.Update]:
    return peers.train(peer, num_env=setting[0], threads=setting[1], seconds=seconds)


def _obstacle() -> str | None:
    cores = len(allowed_cores())
    uneven = f"environments do not divide among {cores} cores: narrow them (taskset) to 1, 2, 4 or 8"
    lacks = [needs.package("mujoco", "mujoco"), needs.package("gymnasium", "gymnasium"), *map(peers.obstacle, PEERS)]
    return next(filter(None, lacks), uneven if min(PEER_NUM_ENV) % cores else None)


CASE = Case(
    name="ppo_ant_v5",
    claim="PPO on gymnasium's Ant-v5 (its model, 5 substeps of RK4): environment steps per second while training, each "
    "library at its best number of environments and threads; 2048 samples an update, 4 epochs of mini-batches of 512, "
    "separate networks of 256-128-64.",
    unit="steps/s",
    open=open_sides,
    obstacle=_obstacle,
    limits="Physics is most of the time and has the same result for all: the gain comes from stepping it in batches, "
    "from options that change no bit of it, and from one GMI per core. Sample Factory trains asynchronously, the rest "
    "do not. gmi-drl normalises observations, the others do not. Returns are not compared.",
)
