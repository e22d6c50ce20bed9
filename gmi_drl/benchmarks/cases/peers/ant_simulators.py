"""Steps of Ant without learning: gmi-drl's batches against gymnasium and envpool."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import Case, Sample, Side, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cores import all_cores
from gmi_drl.gmi.inventory import allowed_cores

if TYPE_CHECKING:
    from gmi_drl.tasks import Task

PEER, DRIVER = "cleanrl_envpool", "step_envpool"
NUM_ENV, QUICK_NUM_ENV = 512, 64
GYMNASIUM_TRIED = (("sync", 16), ("async", 2), ("async", 8), ("async", 16))
ENVPOOL_TRIED = (16, 64, 256, 512, 1024)
SECONDS, SWEEP_S, QUICK_SECONDS = 5.0, 3.0, 0.5
STEPS_PER_CHECK = 10
"""Steps between two readings of the clock."""

WARM_UP_STEPS = 60
"""Untimed steps of every environment, as in `benchmarks/peers/step_envpool.py`: contacts decide a step's cost."""


def opener(own_task: bool) -> Callable[[bool], AbstractContextManager[Sides]]:
    """The opener of the sides: with our own Ant, or with Ant-v5's model, integrator and substeps, like the others."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        seconds = QUICK_SECONDS if quick else SECONDS
        with all_cores(), closing(_make(own_task, QUICK_NUM_ENV if quick else NUM_ENV)) as task:
            gymnasium = [partial(step_gymnasium, *setting) for setting in GYMNASIUM_TRIED]
            envpool = [partial(step_envpool, num_env) for num_env in ENVPOOL_TRIED]
            yield {
                "gmi-drl": partial(step_task, task, seconds),
                "gymnasium": _fastest(gymnasium[: 1 if quick else None], seconds),
                "envpool": _fastest(envpool[: 1 if quick else None], seconds),
            }

    return open_sides


def _make(own_task: bool, num_env: int) -> "Task":
    from gmi_drl.tasks import make

    return make("ant" if own_task else "mujoco:Ant-v5", num_env=num_env, threads=len(allowed_cores()))


def step_task(task: "Task", seconds: float) -> Sample:
    """Steps per second of a whole task step (observations, rewards, resets) with random actions."""
    import torch

    actions = 2 * torch.rand(STEPS_PER_CHECK, task.num_env, task.spec.action.size) - 1
    task.reset()
    return Sample(_steps_per_second(task.step, actions, seconds), {"num_env": task.num_env})


def step_gymnasium(mode: str, num_env: int, seconds: float) -> Sample:
    """The same for gymnasium's vector environment: one environment after another, or a process for each (`async`)."""
    import gymnasium
    import numpy as np
    from gymnasium.vector import AutoresetMode

    reset = {"autoreset_mode": AutoresetMode.SAME_STEP}
    with closing(gymnasium.make_vec("Ant-v5", num_env, vectorization_mode=mode, vector_kwargs=reset)) as envs:
        envs.reset(seed=0)
        actions = np.random.default_rng(0).uniform(-1, 1, (STEPS_PER_CHECK, num_env, 8)).astype(np.float32)
        return Sample(_steps_per_second(envs.step, actions, seconds), {"num_env": num_env, "mode": mode})


def _steps_per_second(step: Callable[[Any], object], actions: Any, seconds: float) -> float:
    """Steps of all environments per second, repeating `actions` `[STEPS_PER_CHECK, N, A]`, after the warm-up."""
    for index in range(WARM_UP_STEPS):
        step(actions[index % STEPS_PER_CHECK])
    steps, started = 0, time.perf_counter()
    while (now := time.perf_counter()) - started < seconds or steps == 0:
        for action in actions:
            step(action)
        steps += STEPS_PER_CHECK * actions.shape[1]
    return steps / (now - started)


def step_envpool(num_env: int, seconds: float) -> Sample:
    """The same for envpool, in its own virtual environment, with a thread on each core."""
    threads = len(allowed_cores())
    updates = peers.train(PEER, num_env=num_env, threads=threads, seconds=seconds, driver=DRIVER)
    return Sample(peers.speed(updates, warm_up=1), {"num_env": num_env})


def _fastest(sides: Sequence[Callable[[float], Sample]], seconds: float) -> Side:
    """The fastest of these sides in a short measurement."""
    best = sides[0] if len(sides) == 1 else max(sides, key=lambda side: side(SWEEP_S).value)
    return partial(best, seconds)


def _obstacle() -> str | None:
    return (
        requirements.package("mujoco", "mujoco")
        or requirements.package("gymnasium", "gymnasium")
        or peers.obstacle(PEER, DRIVER)
    )


def case(name: str, claim: str, limits: str, *, own_task: bool) -> Case:
    """The case with our own Ant, or with Ant-v5."""
    return Case(
        name=name,
        claim=claim,
        unit="steps/s",
        open=opener(own_task),
        obstacle=_obstacle,
        limits=f"{limits} gymnasium runs in its fastest mode on this machine: `sync` is one process on one core, "
        "`async` a process for each environment. envpool and gmi-drl use all cores.",
        repeats=7,
    )


CASES = (
    case(
        "ant_v5_step",
        "Steps of Ant-v5 per second with random actions and no learning, on all cores: the same model, integrator and "
        "substeps (5 of RK4) for all, each library at the best number of environments that was tried.",
        "gmi-drl leaves out work that does not change the physics (islands, pairs that cannot touch).",
        own_task=False,
    ),
    case(
        "ant_own_step",
        "The same with our own Ant on our side: a lighter model, 2 substeps of implicitfast.",
        "The physics differs, which explains most of the ratio.",
        own_task=True,
    ),
)
