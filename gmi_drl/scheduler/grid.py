"""Makes grids: the cuts that a search may measure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gmi_drl.config.physics import Physics
from gmi_drl.config.task_settings import simulates_on_gpu
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware.node import Node
from gmi_drl.layout.backends import BACKENDS, PROCESS
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler.exploration import GPU_NUM_ENVS, MOST_GMIS, NUM_ENVS
from gmi_drl.scheduler.profile import Profile
from gmi_drl.templates import devices_of, require_division
from gmi_drl.units import counted
from gmi_drl.workload import MOST_ENVIRONMENTS, TaskSpec

FEWER_OF_IMAGES = 16
"""Images take a hundred times longer to learn from than vectors, and have horizons of 128: 8 environments at least."""


def grid_of(num_envs: Mapping[int, Sequence[int]], backend: str = PROCESS.name) -> tuple[Cut, ...]:
    """A grid from the numbers of environments to try, by GMIs per device."""
    return tuple(Cut(size, num_env, backend) for size, some in num_envs.items() for num_env in some)


def otherwise_capped(cut: Cut) -> tuple[Cut, ...]:
    """The cut with caps if it has none, else without; empty if its GMIs cannot be capped, or it has one per device."""
    can_be = cut.gmis_per_gpu > 1 and BACKENDS.find(cut.backend).caps
    return (replace(cut, capped=not cut.capped),) if can_be else ()


def with_caps(grid: Sequence[Cut]) -> tuple[Cut, ...]:
    """The cuts, followed by the capped version of each that can be capped."""
    return (*grid, *(capped for cut in grid for capped in otherwise_capped(cut)))


def gpu_simulates(node: Node, task: TaskSpec | None, physics: Physics | None) -> bool:
    """Whether a node has GPUs and the simulator of a task runs there. Without a task it does."""
    return node.num_gpus > 0 and (task is None or simulates_on_gpu(task.name, physics))


def num_envs_of(node: Node, task: TaskSpec | None = None, physics: Physics | None = None) -> tuple[int, ...]:
    """The numbers of environments to try on the devices of a node, in this order: whole worlds, and fewer of images.

    Where the simulator runs on cores they are those of cores, also if a GPU learns.
    """
    usual = GPU_NUM_ENVS if gpu_simulates(node, task, physics) else NUM_ENVS
    if task is None:
        return usual
    if task.observation.of_kind("image"):
        usual = tuple(count // FEWER_OF_IMAGES for count in usual)
    return tuple(dict.fromkeys(map(task.whole_worlds, usual)))


def search_grid(
    node: Node,
    horizon: int,
    *,
    gmis_per_gpu: int | None = None,
    num_env: int | None = None,
    keep_batch: int | None = None,
    backends: Sequence[str] = (PROCESS.name,),
    task: TaskSpec | None = None,
    physics: Physics | None = None,
) -> tuple[Cut, ...]:
    """Algorithm 2's grid on a node, the most important cuts first, since the budget may not suffice for all.

    One GMI per device comes first, since everything is compared with it. Then follow, on cores, the largest number
    downwards; on a GPU, powers of two, then the others. With several backends each number of GMIs is tried by all of
    them, but one GMI per device only by the first.

    Args:
        node: The machine; its cores limit the GMIs.
        horizon: Steps of each environment per update.
        gmis_per_gpu: The only number of GMIs to try.
        num_env: The only number of environments of a GMI to try.
        keep_batch: Samples per update that every layout must have: environments of all GMIs times the horizon. A GMI
            has whole worlds of the task's agents.
        backends: The backends to try.
        task: The task; without one the numbers for vectors and one agent are tried.
        physics: The setting `physics`.

    Raises:
        NoFeasiblePlanError: if nothing is left, or the backend cannot cut the devices at all.
        UsageError: if `num_env` environments are not whole worlds of the task's agents.
    """
    if task is not None and num_env:
        task.require_whole_worlds(num_env)
    num_devices, most = devices_of(node)
    largest = gmis_per_gpu or min(most, MOST_GMIS)
    if largest > most:
        raise NoFeasiblePlanError(f"{largest} GMIs per device need {largest} cores each, {node.name} has {most}")
    sizes = [gmis_per_gpu] if gmis_per_gpu else _sizes(largest, on_gpu=node.num_gpus > 0)
    divisions = _divisions(node, sizes, backends)
    if keep_batch is None:
        return _by_all({size: (num_env,) if num_env else num_envs_of(node, task, physics) for size in sizes}, divisions)
    kept = {size: _quotient(keep_batch, horizon * size * num_devices) for size in sizes}
    possible = {size: (each,) for size, each in kept.items() if num_env in (None, each) and _is_possible(each, task)}
    grid = _by_all(possible, divisions)
    if not grid:
        wanted = f"{keep_batch} samples per update are not {horizon} steps (learner.horizon) of as many environments"
        tried = f"on each of {' or '.join(str(size * num_devices) for size in sorted(sizes))} GMIs"
        raise NoFeasiblePlanError(f"{wanted} {tried}")
    return grid


def profile_grid(
    profile: Profile, node: Node, horizon: int, keep_batch: int | None = None, backend: str | None = None
) -> tuple[Cut, ...]:
    """The cuts of a profile that a node has enough cores for, with `keep_batch` samples per update, by a backend."""
    num_devices, most = devices_of(node)
    return tuple(
        cut
        for cut in sorted({point.cut for point in profile.points})
        if backend in (None, cut.backend)
        and cut.gmis_per_gpu <= most
        and keep_batch in (None, horizon * num_devices * cut.uncut.num_env)
    )


def why_no_grid(
    profile: Profile, node: Node, horizon: int, keep_batch: int | None = None, backend: str | None = None
) -> str | None:
    """Why `profile_grid` is empty, with the alternatives; None if it is not."""
    if profile_grid(profile, node, horizon, keep_batch, backend):
        return None
    by = "" if backend is None else f" by {backend}"
    points = [point for point in profile.points if backend in (None, point.backend)]
    if not points:
        has = ", ".join(dict.fromkeys(point.backend for point in profile.points)) or "no points"
        return f"the profile has no point{by}, it has {has}"
    num_devices, most = devices_of(node)
    points = [point for point in points if point.gmis_per_gpu <= most]
    if not points:
        return f"the node has cores for {counted(most, 'GMI')} of each device, and no point{by} has so few"
    samples = sorted({horizon * num_devices * point.cut.uncut.num_env for point in points})
    return f"no point{by} has {keep_batch} samples per update on {node.name}: there are {', '.join(map(str, samples))}"


def _by_all(num_envs: Mapping[int, Sequence[int]], divisions: Mapping[int, Sequence[str]]) -> tuple[Cut, ...]:
    """As `grid_of`, with every backend that can cut a device into that many GMIs."""
    parts = ((size, some, backend) for size, some in num_envs.items() for backend in divisions[size])
    return tuple(cut for size, some, backend in parts for cut in grid_of({size: some}, backend))


def _sizes(largest: int, *, on_gpu: bool) -> list[int]:
    """The numbers of GMIs per device, in the order of the search."""
    if not on_gpu:
        return [1, *range(largest, 1, -1)]
    return sorted(range(1, largest + 1), key=lambda size: (size.bit_count() > 1, size))


def _divisions(node: Node, sizes: Sequence[int], backends: Sequence[str]) -> dict[int, list[str]]:
    """The backends that can cut devices into each number of GMIs. For one GMI only the first backend is tried.

    Raises:
        NoFeasiblePlanError: if no backend can make any of these cuts.
    """
    possible: dict[int, list[str]] = {size: [] for size in sizes}
    refused: list[NoFeasiblePlanError] = []
    for size in sizes:
        for backend in backends if size > 1 else backends[:1]:
            try:
                require_division(node, Cut(size, 1, backend))
                possible[size].append(backend)
            except NoFeasiblePlanError as error:
                refused.append(error)
    if not any(possible.values()):
        raise refused[0]
    return possible


def _is_possible(num_env: int, task: TaskSpec | None) -> bool:
    """Whether a GMI can have so many environments of a task."""
    return 0 < num_env <= MOST_ENVIRONMENTS and (task is None or task.whole_worlds(num_env) == num_env)


def _quotient(number: int, divisor: int) -> int:
    """`number / divisor` if that is a whole number, else 0."""
    return number // divisor if number % divisor == 0 else 0
