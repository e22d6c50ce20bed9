"""The shares of phases and layers in the time of a training."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cores import one_core

if TYPE_CHECKING:
    from torch.nn import Module

    from gmi_drl.roles.training.ppo_replica import PPOReplica

NUM_ENV = 256
ITERATIONS, QUICK_ITERATIONS = 5, 1
WARM_UP = 10  # iterations, after which some robots have fallen and begun anew


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """The training of one GMI, in this process, after a warm-up."""
    import torch

    from gmi_drl.comm.reductions.single import NoReduction
    from gmi_drl.config.run_config import default_config
    from gmi_drl.roles.training.ppo_replica import PPOReplica
    from gmi_drl.tasks import make
    from gmi_drl.workload import TASK_SPECS

    spec = TASK_SPECS["ant"]
    with one_core(), closing(make("ant", num_env=NUM_ENV)) as task:
        replica = PPOReplica(
            spec, default_config(spec), NoReduction(), sample_share=1.0, device=torch.device("cpu"), seed=0
        )
        replica.attach_task(task, seed=0)
        layers = _time_layers(replica.learner.agent.policy)
        iterate(replica, 1 if quick else WARM_UP)
        yield {"gmi-drl": lambda: measure(replica, layers, QUICK_ITERATIONS if quick else ITERATIONS)}


def measure(replica: "PPOReplica", layers: dict[str, float], iterations: int) -> Sample:
    """Mean seconds of an iteration, of its phases, and of the forward passes of the layers in them."""
    layers.clear()
    start = time.perf_counter()
    phases = iterate(replica, iterations)
    seconds = (time.perf_counter() - start) / iterations
    return Sample(seconds, {**phases, **{name: total / iterations for name, total in layers.items()}})


def iterate(replica: "PPOReplica", count: int) -> dict[str, float]:
    """Run `count` iterations. Returns mean seconds by phase."""
    from gmi_drl.roles.training.iteration_stats import Decision
    from gmi_drl.run.phases import WAIT

    phases: Counter[str] = Counter()
    for _ in range(count):
        replica.iterate(lambda: Decision.GO_ON)
        phases.update(replica.phases())
    return {name: total / count for name, total in phases.items() if name != WAIT.name}


def _time_layers(policy: "Module") -> dict[str, float]:
    """A dict in which seconds of forward passes are summed by kind of layer from now on.

    They are measured by the clock: torch's profiler makes operations on a megabyte several times slower.
    """
    from torch.nn import Linear

    totals: dict[str, float] = defaultdict(float)
    started = 0.0

    def start(*_: object) -> None:
        nonlocal started
        started = time.perf_counter()

    def stop(layer: "Module", *_: object) -> None:
        kind = Linear if isinstance(layer, Linear) else type(layer)
        totals[f"{kind.__name__.lower()}_forward_s"] += time.perf_counter() - started

    for layer in policy.modules():
        if not list(layer.children()):
            layer.register_forward_pre_hook(start)
            layer.register_forward_hook(stop)
    return totals


CASE = Case(
    name="costs",
    claim="The time of an iteration of training Ant, 1 GMI of 256 environments on 1 thread, horizon 16: its phases, "
    "and the share of forward passes of linear layers and of ELU in acting and learning.",
    unit="s",
    open=open_sides,
    lower_is_better=True,
    obstacle=lambda: requirements.package("mujoco", "mujoco"),
    limits="Nothing is compared. Backward passes are not split by layer.",
    repeats=7,
)
