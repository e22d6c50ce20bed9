"""Models the memory of a GMI as a + b x num_env, and compares it with the memory of a node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler.candidate import Candidate
from gmi_drl.scheduler.profile import ProfilePoint
from gmi_drl.templates import devices_of
from gmi_drl.units import GIB, counted, human_bytes, human_gib

SPARE = 0.1
"""Part of the memory that a plan leaves free, for the system and for growth."""


@dataclass(frozen=True)
class MemoryModel:
    """Bytes of one GMI: `fixed_bytes + bytes_per_env * num_env`."""

    fixed_bytes: float
    bytes_per_env: float

    def __call__(self, num_env: int) -> int:
        """Bytes of a GMI with `num_env` environments."""
        return round(self.fixed_bytes + self.bytes_per_env * num_env)


def fit(sizes: Iterable[tuple[int, int]]) -> MemoryModel | None:
    """A least-squares line through `(num_env, bytes)`, slope >= 0, without sizes of 0; None below two num_env."""
    known = [(num_env, size) for num_env, size in sizes if size > 0]
    if len({num_env for num_env, _ in known}) < 2:
        return None
    mean_env = sum(num_env for num_env, _ in known) / len(known)
    mean_size = sum(size for _, size in known) / len(known)
    spread = sum((num_env - mean_env) ** 2 for num_env, _ in known)
    slope = sum((num_env - mean_env) * (size - mean_size) for num_env, size in known) / spread
    slope = max(slope, 0.0)
    return MemoryModel(mean_size - slope * mean_env, slope)


def memory_models(points: Iterable[ProfilePoint]) -> dict[int, MemoryModel]:
    """The memory models of a profile by GMIs per device, for those with enough points."""
    sizes: dict[int, list[tuple[int, int]]] = {}
    for point in points:
        if point.runnable:
            sizes.setdefault(point.gmis_per_gpu, []).append((point.num_env, point.memory_bytes))
    models = {size: fit(known) for size, known in sizes.items()}
    return {size: model for size, model in models.items() if model is not None}


def host_bytes_of(candidate: Candidate, node: Node) -> int:
    """Bytes of all GMIs of a candidate on the host, as far as measured."""
    if candidate.by_model:
        counts = node.used_counts
        return sum(counts[model] * point.gmis_per_gpu * point.host_bytes for model, point in candidate.by_model)
    point, (num_devices, _) = candidate.point, devices_of(node)
    return num_devices * point.gmis_per_gpu * (point.host_bytes or (0 if node.num_gpus else point.memory_bytes))


def fits_host(node: Node, host_bytes: int) -> bool:
    """Whether the host has this much memory for GMIs."""
    return host_bytes <= (1 - SPARE) * node.cpu.memory_gib * GIB


def shortage(
    node: Node,
    num_gmis: int,
    gmis_per_gpu: int,
    memory_bytes: int,
    host_bytes: int,
    shared_bytes: int = 0,
    shared: str = "channels",
) -> str | None:
    """Why a node's memory does not hold its GMIs, with the numbers; None if it does or nothing is known.

    Args:
        node: The machine.
        num_gmis: GMIs of the whole node.
        gmis_per_gpu: GMIs of each device.
        memory_bytes: Bytes of one GMI on its device.
        host_bytes: Bytes of one GMI on the host; the same as `memory_bytes` on a CPU.
        shared_bytes: Bytes on the host besides.
        shared: What these are of, in words.
    """
    host = num_gmis * max(host_bytes, 0 if node.num_gpus else memory_bytes)
    return _shortage(node, num_gmis, host, gmis_per_gpu, gmis_per_gpu * memory_bytes, shared_bytes, shared)


def shortage_together(node: Node, num_devices: int, points: Sequence[ProfilePoint], cuts: Sequence[Cut]) -> str | None:
    """As `shortage`, for several layouts that are alive on a node at the same time.

    Args:
        node: The machine.
        num_devices: Its GPUs, or CPU devices, which are cut alike.
        points: Measured points. A GMI of an unmeasured division is assumed to need what one of the next smaller
            does, by any backend if its own was not measured; if one number of environments was measured, as much as
            with that.
        cuts: One for each layout.
    """
    device_bytes = host_bytes = 0
    for cut in cuts:
        size, num_env = cut.gmis_per_gpu, cut.num_env
        smaller = [point for point in points if point.runnable and point.gmis_per_gpu <= size]
        known = [point for point in smaller if point.backend == cut.backend] or smaller
        nearest = [point for point in known if point.gmis_per_gpu == max(other.gmis_per_gpu for other in known)]
        device_bytes += size * _bytes_of(num_env, [(point.num_env, point.memory_bytes) for point in nearest])
        host_bytes += size * num_devices * _bytes_of(num_env, [(point.num_env, point.host_bytes) for point in nearest])
    here = sum(cut.gmis_per_gpu for cut in cuts)
    host_bytes = max(host_bytes, 0 if node.num_gpus else num_devices * device_bytes)
    return _shortage(node, here * num_devices, host_bytes, here, device_bytes)


def _bytes_of(num_env: int, sizes: Sequence[tuple[int, int]]) -> int:
    """Bytes of a GMI by measured `(num_env, bytes)`: of a line, or of the most environments up to `num_env`."""
    model = fit(sizes)
    return model(num_env) if model else max((size for few, size in sizes if few <= num_env), default=0)


def _shortage(
    node: Node,
    num_gmis: int,
    host_bytes: int,
    gmis_here: int,
    device_bytes: int,
    shared_bytes: int = 0,
    shared: str = "channels",
) -> str | None:
    """As `shortage`, for `num_gmis` that take `host_bytes` together, and `gmis_here` on a device `device_bytes`."""
    if not fits_host(node, host_bytes + shared_bytes):
        besides = f" and {human_bytes(shared_bytes)} of {shared}" if shared_bytes else ""
        whole = f"{human_bytes(host_bytes + shared_bytes)} of the host's {human_gib(node.cpu.memory_gib)}"
        return f"{counted(num_gmis, 'GMI')}{besides} would take {whole}"
    device_gib = node.gpu_memory_gib
    if device_gib is not None and device_bytes > (1 - SPARE) * device_gib * GIB:
        return f"{counted(gmis_here, 'GMI')} would take {human_bytes(device_bytes)} of a GPU's {human_gib(device_gib)}"
    return None
