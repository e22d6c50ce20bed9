"""What `gmi-drl plan` finds on this machine and what Algorithm 2 chooses, against the best of the whole grid."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from statistics import median
from typing import TYPE_CHECKING

from gmi_drl.bench.case import Case, Sides
from gmi_drl.bench.cases import needs
from gmi_drl.bench.cases.sessions import of_layouts, training_side
from gmi_drl.bench.cases.shares import MPS, PLAIN, WORDS, most_gmis, one_device

if TYPE_CHECKING:
    from gmi_drl.config import RunConfig
    from gmi_drl.cut import Cut
    from gmi_drl.hardware import Node
    from gmi_drl.profiler.sessions import Sessions
    from gmi_drl.scheduler.search import Grid

QUICK_NUM_ENVS = (16, 32)
PLAN_S = 60.0
"""What `gmi-drl plan` takes on a CPU if it is not told otherwise."""

GPU_PLAN_S = 120.0
"""On a GPU, where a minute shall compare one GMI with two."""

GPU_SIZES, GPU_NUM_ENVS = (1, 2, 4, 8), (1024, 4096, 16384)
"""A small grid: the whole of what `gmi-drl plan` may look at on a GPU would take an hour."""

SECONDS = 3.0
SWEEPS = 3
DEADLINE_S = 900.0  # two iterations with 16384 environments and a large network take minutes on a slow core


def opener(
    hidden: tuple[int, ...], keep_batch: int | None = None, gpu_backend: str | None = None
) -> Callable[[bool], AbstractContextManager[Sides]]:
    """All choices are made first, each from measurements of its own; then they run by turns, the same ones once.

    Args:
        hidden: Widths of the network.
        keep_batch: Samples per update, should they be held.
        gpu_backend: What cuts the first GPU; None for the cores.
    """

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        from gmi_drl.config import default_config
        from gmi_drl.cut import Cut
        from gmi_drl.gmi.inventory import this_node
        from gmi_drl.scheduler import grid_of, search_grid
        from gmi_drl.templates import TCG_EX
        from gmi_drl.workload import TASK_SPECS

        task, node = TASK_SPECS["ant"], this_node()
        node = one_device(node) if gpu_backend else node.model_copy(update={"gpus": None})
        usual = default_config(task)
        config = usual.model_copy(update={"learner": usual.learner.model_copy(update={"hidden": hidden})})
        if gpu_backend:
            grid = gpu_grid(node, gpu_backend)
        else:
            grid = search_grid(node, config.learner.horizon, keep_batch=keep_batch)
        sizes = dict.fromkeys(cut.gmis_per_gpu for cut in grid)
        if quick:
            grid = grid_of(dict.fromkeys(sizes, QUICK_NUM_ENVS), grid[0].backend)
        cuts = {"gmi-drl plan": planned(config, node, grid), "Algorithm 2": choice(config, node, grid)}
        with of_layouts(
            {size: TCG_EX.lay_out(task, node, Cut(size, 1, grid[0].backend)) for size in sizes}, config
        ) as sessions:
            cuts["the best of the grid"] = exhaustive_best(sessions, grid)
            sides = {cut: training_side(sessions, cut.gmis_per_gpu, cut.num_env, SECONDS) for cut in cuts.values()}
            yield {name: sides[cut] for name, cut in cuts.items()}

    return open_sides


def gpu_grid(node: "Node", backend: str) -> "Grid":
    """What is compared on a GPU: as many GMIs as have cores."""
    from gmi_drl.scheduler import grid_of

    return grid_of({size: GPU_NUM_ENVS for size in GPU_SIZES if size <= most_gmis(node)}, backend)


def planned(config: "RunConfig", node: "Node", grid: "Grid") -> "Cut":
    """What `gmi-drl plan` writes, measured afresh. It may be one GMI with more environments than the grid has."""
    from gmi_drl.cut import Cut
    from gmi_drl.profiler.planning import plan_here
    from gmi_drl.workload import TASK_SPECS

    seconds = GPU_PLAN_S if node.num_gpus else PLAN_S
    layout = plan_here(TASK_SPECS["ant"], config, node, grid, seconds=seconds, fresh=True).layout
    return Cut(len(layout.gmis), layout.gmis[0].num_env, layout.backend)


def choice(config: "RunConfig", node: "Node", grid: "Grid") -> "Cut":
    """What Algorithm 2 chooses with the paper's stop, measured afresh."""
    import math

    from gmi_drl.profiler.budget import Budget
    from gmi_drl.profiler.cache import Cache
    from gmi_drl.profiler.points import PointMeasurer
    from gmi_drl.scheduler import algorithm_2
    from gmi_drl.scheduler.plan import judge_for
    from gmi_drl.workload import TASK_SPECS

    task = TASK_SPECS["ant"]
    cache = Cache(task, config, node, fresh=True)
    with PointMeasurer(task, config, node, cache, grid, Budget(math.inf)) as measure:
        return algorithm_2(measure, grid, judge_for(task, config.learner, node))[0].point.cut


def exhaustive_best(sessions: "Sessions[int]", grid: "Grid") -> "Cut":
    """Every layout of the grid with all its GMIs: the one with the highest median.

    Each is measured several times, but for those of which one iteration lasts longer than that: it tells as much.
    """
    speeds: dict[Cut, list[float]] = {}
    slow: set[Cut] = set()
    for _ in range(SWEEPS):
        for cut in [cut for cut in grid if cut not in slow]:
            measured = sessions[cut.gmis_per_gpu].measure(cut.num_env, SECONDS / SWEEPS, deadline_s=DEADLINE_S)
            speeds.setdefault(cut, []).append(measured.steps_per_second)
            if measured.iteration_s > SECONDS:
                slow.add(cut)
    return max(speeds, key=lambda cut: median(speeds[cut]))


def case(name: str, workload: str, hidden: tuple[int, ...], keep_batch: int | None = None) -> Case:
    """The case for one network, and for one number of samples per update if that is held."""
    return Case(
        name=name,
        claim=f"Training Ant with {workload}: what `gmi-drl plan` finds in a minute and what Algorithm 2 chooses with "
        "the paper's stop run as fast as the best of the whole grid.",
        unit="steps/s",
        open=opener(hidden, keep_batch),
        obstacle=lambda: needs.cores(2) or needs.package("mujoco", "mujoco"),
        reference="to be within 5 % of the best",
        limits="The grid is that of `gmi-drl plan`: from one GMI to one for each core, ten at most, with "
        + (
            f"as many environments as make {keep_batch} samples per update."
            if keep_batch
            else "128 to 16384 environments each. On two cores the number of GMIs is at an edge whatever is chosen."
        ),
    )


def gpu_case(name: str, backend: str, obstacle: Callable[[], str | None]) -> Case:
    """The case for one GPU and one way to share it."""
    numbers = f"{', '.join(map(str, GPU_SIZES))} GMIs with {', '.join(map(str, GPU_NUM_ENVS))} environments each"
    return Case(
        name=name,
        claim=f"Training Ant on one GPU, {WORDS[backend]}: what `gmi-drl plan` finds in two minutes and what Algorithm "
        "2 chooses with the paper's stop run as fast as the best of the whole grid.",
        unit="steps/s",
        open=opener((256, 128, 64), gpu_backend=backend),
        obstacle=lambda: needs.warp_on_gpu() or obstacle(),
        reference="to be within 5 % of the best",
        limits=f"The grid is {numbers}.",
    )


CASES = (
    case("algorithm_2_small", "a small network (256, 128, 64)", (256, 128, 64)),
    case("algorithm_2_large", "a large network (512, 512, 256)", (512, 512, 256)),
    # Each GMI steps Adam on all 8.7 million weights and their sum goes over the border, for few samples: one GMI wins.
    case("algorithm_2_kept", "512 samples per update and a network (2048, 2048)", (2048, 2048), keep_batch=512),
    gpu_case("algorithm_2_gpu", PLAIN, lambda: None),
    gpu_case("algorithm_2_gpu_mps", MPS, needs.mps),
)
