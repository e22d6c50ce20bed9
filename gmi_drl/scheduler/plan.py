"""From a workload and a node to a layout."""

from typing import Literal

from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.hardware import STORES_IN_ORDER, Node
from gmi_drl.layout import Layout, Projection
from gmi_drl.profile import Profile
from gmi_drl.scheduler.search import Candidate, search
from gmi_drl.templates import devices_of, tcg_ex
from gmi_drl.units import human_bytes, human_count
from gmi_drl.workload import TaskSpec

TRAINERS = "trainers"
"""The group of the GMIs whose gradients are summed."""


def plan(task: TaskSpec, node: Node, *, num_env: int, gmis_per_device: int | None = None) -> Layout:
    """Cut a node evenly for synchronous PPO training. Nothing is measured, and the layout says so.

    Args:
        task: What is trained.
        node: Where.
        num_env: Environments of each GMI.
        gmis_per_device: None for one per physical core (one per GPU).

    Raises:
        NoFeasiblePlanError: if the node cannot hold so many GMIs.
    """
    why = "no profile was given and nothing was measured: the devices are cut evenly"
    return _layout(task, node, gmis_per_device, num_env, Projection(measured=False), [why])


def plan_measured(task: TaskSpec, node: Node, profile: Profile) -> Layout:
    """Choose what a profile measured best, by Algorithm 2 (paper section 5.2), for synchronous PPO training.

    Raises:
        UsageError: if the profile is of another task.
        NoFeasiblePlanError: if nothing in it runs, or only what the node has too few cores for.
    """
    if profile.task != task.name:
        raise UsageError(f"the profile is of task {profile.task}, not of {task.name}: measure that one")
    num_devices, most = devices_of(node)
    sizes = sorted({point.gmis_per_gpu for point in profile.points if point.gmis_per_gpu <= most}, reverse=True)
    num_envs = sorted({point.num_env for point in profile.points})
    candidates = search(profile.point, num_devices=num_devices, sizes=sizes, num_envs=num_envs)
    if not candidates:
        tried = f"{len(profile.points)} points, {sum(point.runnable for point in profile.points)} of them runnable"
        raise NoFeasiblePlanError(f"the profile has {tried}, none with at most {most} GMIs per device: no plan")
    best = candidates[0]
    projection = Projection(
        measured=True, steps_per_second=best.projected, memory_bytes=best.point.memory_bytes or None
    )
    why = [
        f"Algorithm 2 over {len(profile.points)} points of {profile.node}: {_described(best, num_devices)}",
        *([f"the profile says of itself: {profile.note}"] if profile.note else []),
        *_alternatives(candidates, num_devices),
    ]
    return _layout(task, node, best.point.gmis_per_gpu, best.point.num_env, projection, why)


def _described(candidate: Candidate, num_devices: int) -> str:
    point = candidate.point
    each = f"{point.gmis_per_gpu} x {point.num_env} environments on each of {num_devices} devices"
    memory = f", {human_bytes(point.memory_bytes)} for each GMI" if point.memory_bytes else ""
    return f"{each} project to {human_count(candidate.projected)} steps/s{memory}"


def _alternatives(candidates: list[Candidate], num_devices: int) -> list[str]:
    """The runner-up, and what one GMI per device does at its best: solo may win, and the plan says so."""
    best, others = candidates[0], candidates[1:]
    lines = [f"next best: {_described(others[0], num_devices)}"] if others else []
    solo = next((candidate for candidate in candidates if candidate.point.gmis_per_gpu == 1), None)
    if solo is best:
        lines.append("one GMI per device is best here: cutting it does not pay")
    elif solo is not None:
        gain = best.projected / solo.projected if solo.projected else float("inf")
        lines.append(f"{gain:.2f}x one GMI per device at its best ({_described(solo, num_devices)})")
    else:
        lines.append("one GMI per device was not measured, so nothing says that cutting pays")
    return [*lines, "a projection takes all GMIs to run as the measured one did; it has not been confirmed by a run"]


def _layout(
    task: TaskSpec, node: Node, gmis_per_device: int | None, num_env: int, projection: Projection, why: list[str]
) -> Layout:
    """An even TCG_EX layout of the node."""
    reduction: Literal["MPR-shm", "MPR-gloo"] = "MPR-shm" if node.cpu.architecture in STORES_IN_ORDER else "MPR-gloo"
    devices = tcg_ex(node, gmis_per_device, num_env)
    ids = tuple(gmi.id for device in devices for gmi in device.gmis)
    kind = devices[0].kind.upper()
    cut = f"{len(devices)} {kind} devices" if len(devices) > 1 else kind
    reasons = [
        *why,
        f"{len(ids)} GMIs on the {cut} of {node.name}, {num_env} environments each",
        "TCG_EX: simulator, agent and trainer share a GMI, so only gradients cross its border (paper section 5.1)",
    ]
    if len(ids) > 1:
        reasons.append(f"{reduction}: gradients meet in host memory (multi-process reduction, paper section 4.1)")
    return Layout(
        task=task.name,
        algo="ppo",
        template="TCG_EX",
        reduction=reduction if len(ids) > 1 else "none",
        devices=devices,
        groups={TRAINERS: ids},
        projection=projection,
        reasons=tuple(reasons),
    )
