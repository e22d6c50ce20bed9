"""What Algorithm 2 chooses on this machine against the best of the whole grid, for a small and a large network."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from statistics import median
from typing import TYPE_CHECKING

from gmi_drl.bench.case import Case, Sides
from gmi_drl.bench.cases import needs
from gmi_drl.bench.cases.sessions import alive, training_side

if TYPE_CHECKING:
    from gmi_drl.config import RunConfig
    from gmi_drl.hardware import Node
    from gmi_drl.profiler.confirm import Place
    from gmi_drl.profiler.session import Session

SMALL, LARGE = (256, 128, 64), (512, 512, 256)
NUM_ENVS, QUICK_NUM_ENVS = (128, 256, 512, 1024), (16, 32)
SECONDS = 3.0
SWEEPS = 3


def opener(hidden: tuple[int, ...]) -> Callable[[bool], AbstractContextManager[Sides]]:
    """Both choices are made first, each from measurements of its own; then they run by turns."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        from gmi_drl.config import default_config
        from gmi_drl.gmi.inventory import this_node
        from gmi_drl.scheduler import even_layout
        from gmi_drl.scheduler.search import MOST_GMIS
        from gmi_drl.workload import TASK_SPECS

        task, node = TASK_SPECS["ant"], this_node().model_copy(update={"gpus": None})
        usual = default_config(task)
        config = usual.model_copy(update={"ppo": usual.ppo.model_copy(update={"hidden": hidden})})
        num_envs = QUICK_NUM_ENVS if quick else NUM_ENVS
        most = min(node.cpu.cores, MOST_GMIS)
        grid: dict[int, tuple[int, ...]] = {size: num_envs for size in (1, *range(most, 1, -1))}
        chosen = choice(config, node, grid)
        layouts = {size: even_layout(task, node, size, min(num_envs)) for size in grid}
        with alive(layouts, config) as sessions:
            places = {"Algorithm 2": chosen, "the best of the grid": exhaustive_best(sessions, grid)}
            yield {name: training_side(sessions[size], num, SECONDS) for name, (size, num) in places.items()}

    return open_sides


def choice(config: "RunConfig", node: "Node", grid: dict[int, tuple[int, ...]]) -> "Place":
    """What `gmi-drl plan` would choose before it confirms, measured afresh."""
    import math

    from gmi_drl.profiler.budget import Budget
    from gmi_drl.profiler.planning import explore, place_of
    from gmi_drl.scheduler.plan import candidates_of
    from gmi_drl.workload import TASK_SPECS

    task = TASK_SPECS["ant"]
    profile = explore(task, config, node, grid, Budget(math.inf), fresh=True).profile
    candidates, _ = candidates_of(task, config.ppo, node, profile, grid)
    return place_of(candidates[0].point)


def exhaustive_best(sessions: "Mapping[int, Session]", grid: dict[int, tuple[int, ...]]) -> "Place":
    """Every layout of the grid with all its GMIs, several times: the one with the highest median."""
    speeds: dict[Place, list[float]] = {}
    for _ in range(SWEEPS):
        for size, num_envs in grid.items():
            for num_env in num_envs:
                measured = sessions[size].measure(num_env, SECONDS / SWEEPS)
                speeds.setdefault((size, num_env), []).append(measured.steps_per_second)
    return max(speeds, key=lambda place: median(speeds[place]))


def case(name: str, hidden: tuple[int, ...], size: str) -> Case:
    """The case for one network."""
    return Case(
        name=name,
        claim=f"Training Ant with a {size} network {hidden}: what Algorithm 2 chooses runs as fast as the grid's best.",
        unit="steps/s",
        open=opener(hidden),
        obstacle=lambda: needs.cores(2) or needs.package("mujoco", "mujoco"),
        reference="to be within 5 % of the best",
        limits=f"The grid: {', '.join(map(str, NUM_ENVS))} environments of a GMI, from one GMI to one for each core, "
        "ten at most.",
    )


CASES = (case("algorithm_2_small", SMALL, "small"), case("algorithm_2_large", LARGE, "large"))
