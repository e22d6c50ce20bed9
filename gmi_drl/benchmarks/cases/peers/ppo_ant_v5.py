"""PPO on gymnasium's Ant-v5: gmi-drl against the usual libraries."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import Case, Sample, Side, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.sessions import of_layouts
from gmi_drl.benchmarks.cases.peers import ant_simulators
from gmi_drl.benchmarks.cores import all_cores
from gmi_drl.errors import GmiError
from gmi_drl.gmi.inventory import allowed_cores

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout
    from gmi_drl.profiler.session import Measured, Session

TASK = "mujoco:Ant-v5"
ADAPTED = ("gymnasium:Ant-v5", "envpool:Ant-v5")
"""The same task by our adapters, without gmi-drl's own physics."""

ALONE = "environments alone"
"""Our environments without learning, in the same run: what no training by them can pass."""

PEERS = ("sb3", "rllib", "sample_factory", "cleanrl_envpool", "skrl")
SAMPLES, EPOCHS, MINIBATCHES, HIDDEN = 2048, 4, 4, (256, 128, 64)
NUM_ENVS, QUICK_NUM_ENVS = (8, 16, 32, 64, 128, 256, 512, 1024), (16,)
SWEEP_S, SECONDS, QUICK_SECONDS = 12.0, 30.0, 15.0
WARM_UP_UPDATES = 2

Setting = tuple[int, int]
"""Environments in all, and torch threads of each learning process."""


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """All sides, each at its best setting in a short sweep. Each sample is a training from scratch."""
    seconds = QUICK_SECONDS if quick else SECONDS
    adapted = {f"gmi-drl, {task}": _our_side(task, seconds, *_our_best(task, quick)) for task in ADAPTED}
    theirs = {peer: _peer_side(peer, quick, seconds) for peer in PEERS}
    num_env, sweep = _our_best(TASK, quick)
    ours = _our_side(TASK, seconds, num_env, sweep)
    yield {"gmi-drl": ours, ALONE: partial(environments_alone, num_env, seconds), **adapted, **theirs}


@contextmanager
def open_precisions(quick: bool) -> Iterator[Sides]:
    """Ours in bfloat16 and in float32 at the best number of environments of the latter, and the environments alone."""
    seconds = QUICK_SECONDS if quick else SECONDS
    num_env, sweep = _our_best(TASK, quick)
    yield {
        "gmi-drl": _our_side(TASK, seconds, num_env, sweep, bf16=True),
        "float32": _our_side(TASK, seconds, num_env, sweep),
        ALONE: partial(environments_alone, num_env, seconds),
    }


def environments_alone(num_env: int, seconds: float) -> Sample:
    """The environments of our side on the same cores without learning, as `ant_v5_step` steps them."""
    from gmi_drl.tasks import make

    with all_cores() as cores, closing(make(TASK, num_env=num_env, threads=len(cores))) as task:
        return ant_simulators.step_task(task, seconds)


def peer_threads(peer: str) -> list[int]:
    """Numbers of threads beside one that a peer's sweep tries. Sample Factory's learner always has one."""
    cores = len(allowed_cores())
    return [] if peer == "sample_factory" or cores == 1 else [cores]


def our_layout(task: str, num_env: int, cores: int) -> "Layout":
    """A layout with one holistic GMI on each core."""
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.layout.layout import GMI, Device, Layout
    from gmi_drl.templates import TCG_EX

    ids = tuple(range(cores))
    gmis = tuple(GMI(id=core, num_env=num_env // cores, cores=(core,)) for core in ids)
    return Layout(
        task=task,
        template=TCG_EX.name,
        devices=(Device(kind="cpu", gmis=gmis),),
        groups=TCG_EX.groups([ids], this_node().model_copy(update={"gpus": None})),
    )


def our_config(num_env: int, bf16: bool = False) -> "RunConfig":
    """The peers' hyper-parameters (`benchmarks/peers/settings.py`)."""
    from gmi_drl.config.learners import PPOConfig
    from gmi_drl.config.run_config import RunConfig

    learner = PPOConfig(
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
        bf16=bf16,
    )
    return RunConfig(hang_s=60, learner=learner)


def fastest(
    num_envs: Sequence[int], more_threads: Sequence[int], measure: Callable[[Setting], float]
) -> tuple[Setting, dict[str, float]]:
    """The best number of environments with one thread, then the best number of threads for it; and all speeds."""
    speeds = {(num_env, 1): measure((num_env, 1)) for num_env in num_envs}
    num_env, _ = max(speeds, key=lambda setting: speeds[setting])
    speeds |= {(num_env, threads): measure((num_env, threads)) for threads in more_threads}
    best = max(speeds, key=lambda setting: speeds[setting])
    return best, {f"{num_env} environments, {threads} threads": speed for (num_env, threads), speed in speeds.items()}


def _our_best(task: str, quick: bool) -> tuple[int, dict[str, float]]:
    """Our best number of environments, and all speeds; without a sweep if `quick`."""
    if quick:
        return QUICK_NUM_ENVS[0], {}
    (num_env, _), sweep = fastest(NUM_ENVS, (), lambda setting: _train_ours(task, setting[0], SWEEP_S).steps_per_second)
    return num_env, sweep


def _our_side(task: str, seconds: float, num_env: int, sweep: dict[str, float], bf16: bool = False) -> Side:
    """The side of gmi-drl."""

    def measure() -> Sample:
        measured = _train_ours(task, num_env, seconds, bf16)
        return Sample(measured.steps_per_second, {"num_env": num_env, "threads": 1, "sweep": sweep, **measured.phases})

    return measure


def _train_ours(task: str, num_env: int, seconds: float, bf16: bool = False) -> "Measured":
    """A training by one GMI on each core, with one thread."""
    with session(task, num_env, bf16) as measuring:
        return measuring.measure(num_env // len(allowed_cores()), seconds)


@contextmanager
def session(task: str, num_env: int, bf16: bool = False) -> "Iterator[Session]":
    """GMIs that train the task with `num_env` environments in all."""
    layout = our_layout(task, num_env, len(allowed_cores()))
    with of_layouts({task: layout}, our_config(num_env, bf16)) as sessions:
        yield sessions[task]


def _peer_side(peer: str, quick: bool, seconds: float) -> Side:
    def brief(setting: Setting) -> float:
        try:
            return peers.speed(_train(peer, setting, SWEEP_S), warm_up=1)
        except GmiError:  # too slow for a second update, or it does not run: not the best
            return 0.0

    if quick:
        return partial(_measure_peer, peer, (QUICK_NUM_ENVS[0], 1), {}, seconds)
    return partial(_measure_peer, peer, *fastest(NUM_ENVS, peer_threads(peer), brief), seconds)


def _measure_peer(peer: str, best: Setting, sweep: dict[str, float], seconds: float) -> Sample:
    updates = _train(peer, best, seconds)
    speed = peers.speed(updates, WARM_UP_UPDATES)
    details = {"num_env": best[0], "threads": best[1], "sweep": sweep, "return_mean": updates[-1].return_mean}
    return Sample(speed, {**details, "packages": peers.packages(peer)})


def _train(peer: str, setting: Setting, seconds: float) -> list[peers.Update]:
    return peers.train(peer, num_env=setting[0], threads=setting[1], seconds=seconds)


def _obstacle() -> str | None:
    lacks = (requirements.package("envpool", "envpool"), *map(peers.obstacle, PEERS))
    return next(filter(None, lacks), None) or _obstacle_of_ours()


def _obstacle_of_ours() -> str | None:
    cores = len(allowed_cores())
    uneven = f"environments do not divide among {cores} cores: narrow them (taskset) to 1, 2, 4 or 8"
    packages = (requirements.package(name, name) for name in ("mujoco", "gymnasium"))
    return next(filter(None, packages), uneven if min(NUM_ENVS) % cores else None)


_CLAIM = (
    "PPO on gymnasium's Ant-v5 (its model, 5 substeps of RK4): environment steps per second while training, {}; 2048 "
    "samples an update, 4 epochs of mini-batches of 512, separate networks of 256-128-64. {}"
    f"`{ALONE}` are those of its first side on the same cores, with random actions and without learning."
)

CASE = Case(
    name="ppo_ant_v5",
    claim=_CLAIM.format(
        "each library at its best number of environments and threads",
        "gmi-drl runs with its own batched physics (mujoco:Ant-v5), and by its adapters; ",
    ),
    unit="steps/s",
    open=open_sides,
    obstacle=_obstacle,
    limits="Physics takes most of the time and has the same result for all: the gain comes from stepping it in "
    "batches, from options that do not change it, and from one GMI per core. More than 1024 environments, with which "
    "an update has 2 steps of each, were not tried. Sample Factory trains asynchronously, the rest do not. gmi-drl "
    "normalises observations, the others do not. Returns are not compared. Ray's processes detach from their parent, "
    "so they count as other processes. PufferLib 3.0.0 is not among them: its installation downloads parts of games "
    "from a site of their makers, so packages alone do not pin it.",
)

BF16_CASE = Case(
    name="ppo_ant_v5_bf16",
    claim=_CLAIM.format(
        "with `learner.bf16` (`gmi-drl`) and without, at the best number of environments of the latter",
        "gmi-drl runs with its own batched physics, one GMI on each core; ",
    ),
    unit="steps/s",
    open=open_precisions,
    obstacle=lambda: requirements.bf16_on_cores() or _obstacle_of_ours(),
    limits="Returns are not compared: `learning_gap.py` does so for Ant and Anymal.",
)
