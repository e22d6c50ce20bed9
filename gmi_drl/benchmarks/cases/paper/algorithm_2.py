"""The layouts that `gmi-drl plan` and Algorithm 2 choose on this machine, against the best of the whole grid."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from random import Random
from statistics import median
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.sessions import of_layouts, training_side
from gmi_drl.benchmarks.cases.common.shared_gpu import LABELS, MPS, PLAIN, most_gmis, one_device

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.hardware.node import Node
    from gmi_drl.hardware.speeds import SpeedsByBackend
    from gmi_drl.layout.cut import Cut
    from gmi_drl.profiler.sessions import Sessions
    from gmi_drl.scheduler.exploration import Grid
    from gmi_drl.templates import Purpose, Template
    from gmi_drl.workload import TaskSpec

QUICK_SIZES, QUICK_NUM_ENVS = (1, 2), (16, 32)
PLAN_S = 60.0
"""Seconds of measuring that `gmi-drl plan` takes on a CPU by default."""

GPU_PLAN_S = 120.0
"""Seconds on a GPU, where a minute is needed to compare one GMI with two."""

GPU_SIZES, GPU_NUM_ENVS = (1, 2, 4, 8), (1024, 4096, 16384)
"""A small grid: the whole grid of `gmi-drl plan` on a GPU would take an hour."""

MOST_NUM_ENV = 4096
"""Most environments of a GMI on cores: an iteration with more lasts as long as a round of all the others."""

PLAN, ALGORITHM_2, BEST, ONE_GMI = "gmi-drl plan", "Algorithm 2", "the best of the grid", "the best with one GMI"
RANDOM_CHOICES, RANDOM_SEED = 3, 0
SECONDS = 3.0
SWEEPS = 3
DEADLINE_S = 900.0  # two iterations with 16384 environments and a large network take minutes on a slow core


@dataclass(frozen=True)
class Workload:
    """What runs, and on which devices.

    Args:
        task: The task's name.
        purpose: Training or serving.
        hidden: Widths of the network; None for the task's own.
        keep_batch: Samples per update if all layouts must have the same; else None.
        gpu_backend: The backend that cuts the first GPU; None for cores.
    """

    task: str = "ant"
    purpose: "Purpose" = "training"
    hidden: tuple[int, ...] | None = None
    keep_batch: int | None = None
    gpu_backend: str | None = None

    @cached_property
    def spec(self) -> "TaskSpec":
        """The task's sizes."""
        from gmi_drl.workload import TASK_SPECS

        return TASK_SPECS[self.task]

    @cached_property
    def template(self) -> "Template":
        """The template by which roles are placed on GMIs."""
        from gmi_drl.templates import template_named

        return template_named(self.purpose)

    @cached_property
    def config(self) -> "RunConfig":
        """The configuration of the training."""
        from gmi_drl.config.run_config import default_config

        usual = default_config(self.spec)
        learner = usual.learner.model_copy(update={"hidden": self.hidden} if self.hidden else {})
        return usual.model_copy(update={"learner": learner})

    @cached_property
    def node(self) -> "Node":
        """One device of this machine."""
        from gmi_drl.gmi.inventory import this_node

        return one_device(this_node()) if self.gpu_backend else this_node().model_copy(update={"gpus": None})

    def grid(self, *, quick: bool) -> "Grid":
        """The layouts that are measured."""
        from gmi_drl.scheduler import grid_of, search_grid

        if self.gpu_backend:
            grid = gpu_grid(self.node, self.gpu_backend)
        else:
            grid = search_grid(self.node, self.config.learner.horizon, keep_batch=self.keep_batch)
        if quick:
            sizes = {cut.gmis_per_gpu for cut in grid} & set(QUICK_SIZES)
            return grid_of(dict.fromkeys(sorted(sizes), QUICK_NUM_ENVS), grid[0].backend)
        return [cut for cut in grid if self.gpu_backend or cut.num_env <= MOST_NUM_ENV]


def opener(workload: Workload) -> Callable[[bool], AbstractContextManager[Sides]]:
    """The opener of the sides: all choices are made first, each from its own measurements, then measured in turn."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        from gmi_drl.profiler.budget import Budget
        from gmi_drl.profiler.measured_plan import known_speeds
        from gmi_drl.scheduler import with_caps

        task, template, node, grid = workload.spec, workload.template, workload.node, workload.grid(quick=quick)
        plan = planned(workload, grid)  # also measures how fast GMIs reduce, which is cached
        speeds = known_speeds(task, workload.config, node, grid, Budget(math.inf), template=template)
        cuts = {PLAN: plan, ALGORITHM_2: choice(workload, grid, speeds)}
        whole = with_caps(grid)
        alike = {cut.division: cut.with_num_env(1) for cut in (*whole, *cuts.values())}
        crossing = partial(template.communication, task, workload.config.learner, node, speeds=speeds)
        layouts = {
            division: template.lay_out(task, node, cut, communication=crossing(cut.backend))
            for division, cut in alike.items()
        }
        with of_layouts(layouts, workload.config) as sessions:
            ranking = exhaustive(sessions, whole)
            cuts[BEST] = ranking[0]
            cuts[ONE_GMI] = next(cut for cut in ranking if cut.gmis_per_gpu == 1)
            cuts |= {f"random choice {number}": cut for number, cut in enumerate(random_cuts(grid), 1)}
            sides = {cut: training_side(sessions, cut.division, cut.num_env, SECONDS) for cut in cuts.values()}
            yield {name: sides[cut] for name, cut in cuts.items()}

    return open_sides


def random_cuts(grid: "Grid") -> "list[Cut]":
    """Random cuts of the grid, as without any measurement; always the same ones of a grid."""
    return Random(RANDOM_SEED).sample(list(grid), min(RANDOM_CHOICES, len(grid)))


def gpu_grid(node: "Node", backend: str) -> "Grid":
    """The grid on a GPU, with at most as many GMIs as have a core each."""
    from gmi_drl.scheduler import grid_of

    return grid_of({size: GPU_NUM_ENVS for size in GPU_SIZES if size <= most_gmis(node)}, backend)


def planned(workload: Workload, grid: "Grid") -> "Cut":
    """The cut that `gmi-drl plan` chooses, measured anew. It may be one GMI with more environments than in the grid."""
    from gmi_drl.layout.cut import Cut
    from gmi_drl.profiler.measured_plan import plan_here

    node = workload.node
    seconds = GPU_PLAN_S if node.num_gpus else PLAN_S
    layout = plan_here(
        workload.spec,
        workload.config,
        node,
        grid,
        template=workload.template,
        seconds=seconds,
        fresh=True,
        objective="steps",
    ).layout
    first = layout.gmis[0]
    return Cut(len(layout.gmis), first.num_env, layout.backend, capped=first.share is not None)


def choice(workload: Workload, grid: "Grid", speeds: "SpeedsByBackend") -> "Cut":
    """The cut that Algorithm 2 chooses with the paper's stop, measured anew."""
    from gmi_drl.profiler.budget import Budget
    from gmi_drl.profiler.cache import Cache
    from gmi_drl.profiler.points import PointMeasurer
    from gmi_drl.scheduler import algorithm_2
    from gmi_drl.scheduler.candidates import predictor

    task, config, node, template = workload.spec, workload.config, workload.node, workload.template
    cache = Cache(task, config, node, template=template, fresh=True)
    with closing(
        PointMeasurer(task, config, node, cache, grid, Budget(math.inf), speeds=lambda *_: speeds, template=template)
    ) as measure:
        return algorithm_2(measure, grid, predictor(task, config.learner, node, template, speeds))[0].point.cut


def exhaustive(sessions: "Sessions[tuple[str, int]]", grid: "Grid") -> "list[Cut]":
    """Measure every cut of the grid with all its GMIs. Returns them, the one with the highest median first.

    Each is measured several times, except cuts whose single iteration lasts longer than all these measurements.
    """
    speeds: dict[Cut, list[float]] = {}
    slow: set[Cut] = set()
    for _ in range(SWEEPS):
        for cut in [cut for cut in grid if cut not in slow]:
            measured = sessions[cut.division].measure(cut.num_env, SECONDS / SWEEPS, deadline_s=DEADLINE_S)
            speeds.setdefault(cut, []).append(measured.steps_per_second)
            if measured.iteration_s > SECONDS:
                slow.add(cut)
    return sorted(speeds, key=lambda cut: -median(speeds[cut]))


def case(name: str, what: str, workload: Workload) -> Case:
    """The case of one workload on cores."""
    return Case(
        name=name,
        claim=f"{what}: the layouts that `gmi-drl plan` finds in a minute and that Algorithm 2 chooses with the "
        "paper's stop run as fast as the best of the whole grid; also the best with one GMI, and "
        f"{RANDOM_CHOICES} random choices.",
        unit="steps/s",
        open=opener(workload),
        obstacle=lambda: requirements.cores(2) or requirements.package("mujoco", "mujoco"),
        reference="aim: within 5 % of the best",
        limits="The grid is that of `gmi-drl plan`: from one GMI to one for each core, ten at most, with "
        + (
            f"as many environments as make {workload.keep_batch} samples per update."
            if workload.keep_batch
            else f"128 to {MOST_NUM_ENV} environments each. The number of cores limits the number of GMIs."
        ),
    )


def gpu_case(name: str, backend: str, obstacle: Callable[[], str | None]) -> Case:
    """The case for one GPU and one way to share it."""
    numbers = f"{', '.join(map(str, GPU_SIZES))} GMIs with {', '.join(map(str, GPU_NUM_ENVS))} environments each"
    return Case(
        name=name,
        claim=f"Training Ant on one GPU, {LABELS[backend]}: the layouts that `gmi-drl plan` finds in two minutes and "
        "that Algorithm 2 chooses with the paper's stop run as fast as the best of the whole grid.",
        unit="steps/s",
        open=opener(Workload(gpu_backend=backend)),
        obstacle=lambda: requirements.warp_on_gpu() or obstacle(),
        reference="aim: within 5 % of the best",
        limits=f"The grid is {numbers}.",
    )


CASES = (
    case("algorithm_2_ant_training", "Training Ant by PPO", Workload("ant")),
    case("algorithm_2_ant_serving", "Serving a policy in Ant", Workload("ant", "serving")),
    case("algorithm_2_humanoid_training", "Training Humanoid by PPO", Workload("humanoid")),
    case("algorithm_2_humanoid_serving", "Serving a policy in Humanoid", Workload("humanoid", "serving")),
    # Each GMI runs Adam on all weights and exchanges their gradients for few samples, so some cores go to threads.
    case(
        "algorithm_2_kept",
        "Training Ant with 512 samples per update and a network (2048, 2048)",
        Workload(hidden=(2048, 2048), keep_batch=512),
    ),
    gpu_case("algorithm_2_gpu", PLAIN, lambda: None),
    gpu_case("algorithm_2_gpu_mps", MPS, requirements.mps),
)
