"""Checks before a training starts whether its environments fit into memory."""

from bisect import bisect_left
from collections.abc import Callable
from contextlib import closing
from math import ceil, inf

from gmi_drl.config.learners import OUR_PPO
from gmi_drl.config.learners.base import ROLLOUT_COPIES
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import GmiError, LayoutMismatchError
from gmi_drl.gmi import backend_for
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import SpeedsByBackend
from gmi_drl.launch.known_rooms import SMALLER_RINGS, less_in_channels, rooms_of_task
from gmi_drl.launch.rooms import HostRoom
from gmi_drl.launch.rooms import shortage as shortage_of_hosts
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import Device, Layout
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.cache import Cache
from gmi_drl.profiler.measurable import measurable
from gmi_drl.profiler.points import SMALL, PointMeasurer
from gmi_drl.profiler.speeds import remembered_speeds
from gmi_drl.scheduler.memory import SPARE, fit, shortage
from gmi_drl.scheduler.profile import ProfilePoint
from gmi_drl.templates import backend_refusal, template_of
from gmi_drl.units import GIB, human_bytes, human_gib
from gmi_drl.workload import TaskSpec

PLENTY_BYTES = 2**20
"""More than one environment of any task here takes, without its samples. If this fits, nothing is measured."""

FIXED_BYTES = 2**30
"""More than a process without environments and networks takes."""


def require_room(
    layout: Layout, config: RunConfig, task: TaskSpec, node: Node, tell: Callable[[str], None] = lambda line: None
) -> None:
    """Refuse a training that would run out of memory.

    First 1 MiB for each environment and the memory of the learner (`LearnerConfig.memory_bytes`) are compared with the
    memory. If they do not fit, or the learner cannot say, one GMI is measured with few environments (or its points are
    taken from the cache), and a line through these points is compared. If our PPO was measured in a learner's place,
    the memory that the learner takes beyond PPO's is added. Channels, streams and rings of replay have known sizes:
    they are refused if they do not fit even without the GMIs.

    Args:
        layout: The layout to train on.
        config: The configuration of the run.
        task: The task to train.
        node: This machine.
        tell: Called with a line before measuring, and with the reason if few environments do not run.

    Raises:
        LayoutMismatchError: with the memory needed and the memory there is.
    """
    if backend_for(layout).check(node, layout):
        return  # of another machine: the claim of its devices refuses it
    size = max(len(device.gmis) for device in _memory_devices(layout))
    most, most_on_device = max(gmi.num_env for gmi in layout.gmis), _most_on_device(layout)
    _require_room_for_images(layout, config, task, node)
    learner = config.learner
    less = less_in_channels(learner)
    batches = learner.channels_bytes(layout, task)
    channels = batches * len(layout.with_role("trainer"))
    _require_known_rooms(layout, config, task, node)
    if channels and (why := _gpu_shortage(layout, node, batches)):
        raise LayoutMismatchError(f"{why}: {less}")
    worlds = learner.environments_of(layout) if layout.channels else most
    ring = learner.ring_bytes(task, worlds, of_rollouts=layout.channels is not None, on_gpu=node.num_gpus > 0)
    if any(ring) and (why := _shortage_of_trainers(layout, node, *ring, channels)):
        raise LayoutMismatchError(f"{why}, in rings of replay alone: {SMALLER_RINGS}")
    learning = learner.memory_bytes(task, worlds)
    if learning is None:
        tell(f"the memory of {learner.kind} cannot be computed: measuring how much a few environments take")
    else:
        if layout.channels is not None:  # only those that train have a ring: its part of all on a device
            learning += ceil(_most_trainers(layout) * ring[0] / size) - learner.ring_bytes(task, worlds)[0]
        on_device, on_host = (FIXED_BYTES + PLENTY_BYTES * num_env + learning for num_env in (most_on_device, most))
        if _shortage(layout, node, on_device + (batches if node.num_gpus else 0), on_host, channels) is None:
            return
        much = f"{layout.num_env} environments are many"
        if channels and _shortage(layout, node, on_device, on_host) is None:
            much = f"channels of {human_bytes(channels)} are large ({less})"
        if template_of(layout).probe(OUR_PPO) is None:
            tell(f"{much}; GMIs of {layout.template} differ, so none is measured")
            return
        tell(f"{much}: measuring how much memory a few take")
    try:
        config = measurable(task, config, template_of(layout), tell)
        points = _points_of_few(layout, task, config, node, size)
    except GmiError as error:  # the first device may be busy, say; the training reports what concerns it
        tell(f"the memory is not known: {error}")
        return
    device = fit((point.num_env, point.memory_bytes) for point in points)
    host = fit((point.num_env, point.host_bytes) for point in points)
    if device is None or host is None:
        return  # no memory was measured
    # What the learner takes beyond the PPO measured in its place; on a CPU the host's memory is the device's.
    beyond = max(0, (learning or 0) - (config.learner.memory_bytes(task, most) or 0))
    why = _shortage(layout, node, device(most) + beyond, host(most))
    if why is not None:
        each = max(device.bytes_per_env, host.bytes_per_env)
        more = f", and {human_bytes(beyond)} more for {learner.kind}" if beyond else ""
        raise LayoutMismatchError(
            f"{most} environments in a GMI: {why} ({ceil(each / 1024)} KiB for each environment, "
            f"{human_bytes(device.fixed_bytes)} without any{more}): give each fewer, with --num-env or in the layout"
        )


def _require_known_rooms(layout: Layout, config: RunConfig, task: TaskSpec, node: Node) -> None:
    """Refuse what alone exceeds the memory of the host: channels, streams and rings of replay."""
    rooms = tuple(room for _, room in rooms_of_task(layout, config, task))
    may_be_taken = f"{1 - SPARE:.0%} of its {human_gib(node.cpu.memory_gib)} may be taken"
    host = HostRoom("this machine", int((1 - SPARE) * node.cpu.memory_gib * GIB), may_be_taken, rooms)
    if why := shortage_of_hosts([host]):
        raise LayoutMismatchError(why)


def _require_room_for_images(layout: Layout, config: RunConfig, task: TaskSpec, node: Node) -> None:
    """Refuse rollouts of images that alone exceed the memory: no measurement is needed for that."""
    if not (task.observation.of_kind("image") and layout.with_role("trainer")):
        return
    steps, most = config.learner.horizon, max(gmi.num_env for gmi in layout.gmis)

    def why(num_env: int) -> str | None:
        each = ROLLOUT_COPIES * steps * task.observation.nbytes
        return _shortage(layout, node, each * min(num_env, _most_on_device(layout)), each * num_env)

    if (reason := why(most)) is not None:
        fits = bisect_left(range(1, most), True, key=lambda num_env: why(num_env) is not None)
        raise LayoutMismatchError(
            f"{human_bytes(task.observation.nbytes)} of images a step, {steps} steps, {most} environments in a GMI, "
            f"{ROLLOUT_COPIES} copies: {reason}: at most {fits} environments fit, and less with all else: "
            "give fewer with --num-env, or a shorter learner.horizon"
        )


def _shortage_of_trainers(
    layout: Layout, node: Node, device_bytes: int, host_bytes: int, channel_bytes: int
) -> str | None:
    """As `_shortage`, for what only GMIs that train have."""
    if layout.channels is None:
        return _shortage(layout, node, device_bytes, host_bytes)
    trainers = len(layout.with_role("trainer"))
    return shortage(node, trainers, _most_trainers(layout), device_bytes, host_bytes, channel_bytes)


def _most_trainers(layout: Layout) -> int:
    """GMIs that train on the device that has most of them."""
    return max(sum("trainer" in gmi.roles for gmi in device.gmis) for device in layout.devices)


def _shortage(layout: Layout, node: Node, memory_bytes: int, host_bytes: int, channel_bytes: int = 0) -> str | None:
    """Why the memory does not hold GMIs of this size; None if it does. Named MIG profiles are not checked."""
    size = max(len(device.gmis) for device in _memory_devices(layout))
    if all(gmi.mig_profile is None for gmi in layout.gmis):
        why = backend_refusal(node, Cut(size, layout.gmis[0].num_env, layout.backend), memory_bytes)
        if why is not None:
            return why
    return shortage(node, len(layout.gmis), size, memory_bytes, host_bytes, channel_bytes)


def _memory_devices(layout: Layout) -> list[Device]:
    """The GPUs of a layout; without GPUs all its devices. GMIs on cores take no memory of a GPU."""
    return [device for device in layout.devices if device.kind == "gpu"] or list(layout.devices)


def _most_on_device(layout: Layout) -> int:
    """The most environments of a GMI on one of these devices."""
    return max(gmi.num_env for device in _memory_devices(layout) for gmi in device.gmis)


def _gpu_shortage(layout: Layout, node: Node, batches: int) -> str | None:
    """Why a GPU has no room for the batches of channels, which each of its trainers copies there; None if it has."""
    if node.gpu_memory_gib is None:
        return None
    most = _most_trainers(layout) * batches
    if most <= (1 - SPARE) * node.gpu_memory_gib * GIB:
        return None
    return f"batches of channels would take {human_bytes(most)} of a GPU's {human_gib(node.gpu_memory_gib)}"


def _points_of_few(layout: Layout, task: TaskSpec, config: RunConfig, node: Node, size: int) -> list[ProfilePoint]:
    """The points of a GMI with few environments. Raises GmiError with the reason if they do not run."""
    template = template_of(layout)
    cache = Cache(task, config, node, template=template)
    cuts = [Cut(size, task.whole_worlds(few), layout.backend) for few in SMALL]

    def speeds(backend: str, budget: Budget) -> SpeedsByBackend:
        return remembered_speeds(node, [backend])  # as in a plan, so that its points in the cache count

    with closing(
        PointMeasurer(task, config, node, cache, cuts, Budget(inf), speeds=speeds, template=template)
    ) as measure:
        for cut in cuts:
            point = measure(cut)
            if point is not None and not point.runnable:
                raise GmiError(point.reason)
        return measure.points
