"""Which points a search may look at."""

from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware import Node
from gmi_drl.profile import Profile
from gmi_drl.scheduler.search import MOST_GMIS, NUM_ENVS
from gmi_drl.templates import devices_of


def search_grid(
    node: Node,
    horizon: int,
    *,
    gmis_per_gpu: int | None = None,
    num_env: int | None = None,
    keep_batch: int | None = None,
) -> dict[int, tuple[int, ...]]:
    """Algorithm 2's grid on a node: the numbers of environments to try for each number of GMIs per device.

    One GMI per device comes first, because everything is compared with it; then the largest number downwards.

    Args:
        node: Its cores limit the GMIs.
        horizon: Steps of each world per update.
        gmis_per_gpu: The only number to try.
        num_env: The only number of environments of a GMI to try.
        keep_batch: Samples per update that every layout must have: the environments in all times the horizon.

    Raises:
        NoFeasiblePlanError: if nothing is left.
    """
    num_devices, most = devices_of(node)
    largest = gmis_per_gpu or min(most, MOST_GMIS)
    if largest > most:
        raise NoFeasiblePlanError(f"{largest} GMIs per device need {largest} cores each, {node.name} has {most}")
    sizes = [gmis_per_gpu] if gmis_per_gpu else [1, *range(largest, 1, -1)]
    if keep_batch is None:
        return {size: (num_env,) if num_env else NUM_ENVS for size in sizes}
    kept = {size: _quotient(keep_batch, horizon * size * num_devices) for size in sizes}
    grid: dict[int, tuple[int, ...]] = {
        size: (each,) for size, each in kept.items() if each and num_env in (None, each)
    }
    if not grid:
        wanted = f"{keep_batch} samples per update are not {horizon} steps (learner.horizon) of as many environments"
        tried = f"on each of {' or '.join(str(size * num_devices) for size in sorted(sizes))} GMIs"
        raise NoFeasiblePlanError(f"{wanted} {tried}")
    return grid


def profile_grid(profile: Profile, node: Node, horizon: int, keep_batch: int | None = None) -> dict[int, list[int]]:
    """The points of a profile that a node has the cores for, and that have `keep_batch` samples per update."""
    num_devices, most = devices_of(node)
    grid: dict[int, list[int]] = {}
    for cut in sorted({point.cut for point in profile.points}):
        if cut.gmis_per_gpu <= most and keep_batch in (None, horizon * num_devices * cut.uncut.num_env):
            grid.setdefault(cut.gmis_per_gpu, []).append(cut.num_env)
    return grid


def _quotient(number: int, divisor: int) -> int:
    """`number / divisor` where it divides; 0 where not."""
    return number // divisor if number % divisor == 0 else 0
