"""Workers with inline and with remote inference: rings, waiting for batches, policy workers (SRL, section 2.2)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.worker_run import QUICK_WARM_UP_S, WARM_UP_S, layout_of, rates
from gmi_drl.gmi.inventory import allowed_cores

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.scheduler.worker_rates import WorkerRates

TASK, NUM_ENV, HORIZON, QUICK_HORIZON = "gymnasium:HalfCheetah-v5", 16, 64, 8
ACTORS, CORES = 2, 2
RINGS, WAITS_MS, POLICIES = (1, 2, 4), (0.0, 1.0, 5.0), (1, 2)
SECONDS, QUICK_SECONDS = 12.0, 6.0


@dataclass(frozen=True)
class Way:
    """How actors get their actions: by so many policy workers, 0: by an agent of their own."""

    policies: int = 0
    ring: int = 1
    wait_ms: float = 1.0

    def __str__(self) -> str:
        if not self.policies:
            return "inline"
        workers = f"{self.policies} policy worker" + "s" * (self.policies > 1)
        return f"{workers}, ring {self.ring}, wait {self.wait_ms:g} ms"


WAYS = (Way(), *(Way(*of) for of in product(POLICIES, RINGS, WAITS_MS)))


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """Each way as a training. Rates of one core, by which the plan's formula predicts, are measured first."""
    known = None if quick else measured_rates()
    ways = (Way(), Way(1, 2)) if quick else WAYS
    yield {str(way): partial(measure, way, known, quick) for way in ways}


def config_of(horizon: int = HORIZON) -> "RunConfig":
    """PPO of one epoch, so that learning takes the smallest part."""
    from gmi_drl.config.learners import PPOConfig
    from gmi_drl.config.run_config import RunConfig

    return RunConfig(hang_s=60, learner=PPOConfig(hidden=(64, 64), horizon=horizon, epochs=1, minibatches=4))


def measure(way: Way, known: "WorkerRates | None", quick: bool) -> Sample:
    """Steps/s of a way; details: rows of a batch, seconds of an answer, and what the plan's formula predicts."""
    seconds, warm_up_s = (QUICK_SECONDS, QUICK_WARM_UP_S) if quick else (SECONDS, WARM_UP_S)
    cores = min(CORES, len(allowed_cores()))
    layout = layout_of(
        TASK, NUM_ENV, actors=ACTORS, policies=way.policies, ring=way.ring, wait_ms=way.wait_ms, cores=cores
    )
    sample = rates(layout, config_of(QUICK_HORIZON if quick else HORIZON), seconds, warm_up_s)
    if known is None:
        return sample
    expected = predicted(way, known)
    return replace(sample, details={**sample.details, "predicted": expected, "error": expected / sample.value - 1})


def predicted(way: Way, known: "WorkerRates") -> float:
    """Steps/s by the plan's formula (`scheduler.worker_split`), where all actors share one core, the others another.

    Actors that share a core are one with the environments and the members of all. Batches of one member or more go at
    once or after `wait_ms`; they are taken to be full.
    """
    from gmi_drl.scheduler.worker_split import round_s

    envs = ACTORS * known.num_env
    if not way.policies:
        return min(known.inline, 1 / known.update_s)
    rows = known.num_env / way.ring * ACTORS / way.policies
    answer_s = known.answer_s(rows)
    together = known.model_copy(update={"num_env": envs, "step_s": ACTORS * known.step_s})
    round_of_all_s = round_s(together, ACTORS * way.ring, known.trip_s + answer_s)
    return min(envs / round_of_all_s, 1 / (answer_s / rows + known.update_s))


def measured_rates() -> "WorkerRates":
    """The rates of one core, as a plan measures them."""
    from gmi_drl.launch.task_info import task_spec
    from gmi_drl.profiler.worker_rates import profile_here

    return profile_here(task_spec(TASK), config_of(), NUM_ENV, float("inf"), lambda line: None)


CASES = (
    Case(
        name="workers_inline_remote",
        claim=f"PPO of one epoch on {TASK} by workers: {ACTORS} actors of {NUM_ENV} environments on one core, policy "
        "workers and a trainer on another; inline, and remote by rings, by the time that a request waits for others "
        "of its batch, and by policy workers: steps/s that the trainer learns from, rows of a batch, seconds of "
        "an answer. "
        "`predicted` is the plan's formula by rates of one core alone.",
        unit="steps/s",
        open=open_sides,
        obstacle=lambda: requirements.cores(CORES) or requirements.package("gymnasium", "gymnasium"),
        limits="Workers of a core take turns, so nobody looks before sleeping, and a policy worker's answers wait for "
        "the trainer's turn. Inference on a GPU is not shown.",
        is_baseline_first=True,
        repeats=3,
        guard=0.25,
        floor=6,
    ),
)
