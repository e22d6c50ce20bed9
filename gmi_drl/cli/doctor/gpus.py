"""The checks of `gmi-drl doctor` that look at GPUs: driver, GPUs, links, CUDA, Warp, and what each backend needs."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from gmi_drl.layout.backends import PROCESS, BackendEntry
from gmi_drl.units import human_bytes

if TYPE_CHECKING:  # imported where they are used: other commands' help needs none of it
    from gmi_drl.gmi.inventory import VisibleGpu
    from gmi_drl.layout.layout import Layout

Finding = tuple[str, str]
"""What was found, and the remedy; the remedy is empty if nothing is wrong."""

NO_GPU = "none is needed: the cores are cut into GMIs"
OWN_ORDER = (
    "CUDA may number GPUs of several models in another order than nvidia-smi, whose indices gmi-drl takes: "
    "name UUIDs (nvidia-smi -L), or set CUDA_DEVICE_ORDER=PCI_BUS_ID"
)


def driver() -> Finding:
    """The version of NVIDIA's driver, and the newest CUDA that it runs."""
    from gmi_drl.gmi import inventory

    found = inventory.driver()
    if found is None:
        return "none", "a machine with GPUs needs NVIDIA's driver, whose library is libnvidia-ml.so.1"
    return f"{found.version}" + (", CUDA up to {}.{}".format(*found.cuda) if found.cuda else ""), ""


def gpus() -> Finding:
    """The GPUs that may be used, equal ones in one line, and what is wrong with CUDA_VISIBLE_DEVICES."""
    from gmi_drl.gmi.inventory import visible_gpus_report
    from gmi_drl.gmi.mig.apply.restore import left_behind

    seen = visible_gpus_report()
    if not seen.gpus:
        return "none", seen.note or NO_GPU
    left = dict.fromkeys(left_behind(gpu.parent or gpu.uuid) for gpu in seen.gpus)
    return "\n".join(described(seen.gpus)), "\n".join(filter(None, [seen.note or _order(seen.gpus), *left]))


def described(gpus: "Sequence[VisibleGpu]") -> list[str]:
    """A line for each group of equal GPUs, and one for each MIG device on them."""
    indices: dict[str, list[int]] = {}
    for index, gpu in enumerate(gpus):
        indices.setdefault(_facts(gpu), []).append(index)
    lines = [f"{_numbered(some)} {facts}" for facts, some in indices.items()]
    for index, gpu in enumerate(gpus):
        for device in gpu.mig_devices:
            sms = f"{device.sms} SMs, " if device.sms else ""
            place = f"instance {device.gpu_instance}/{device.compute_instance}"
            lines.append(
                f"on GPU {index}: MIG {device.profile}, {sms}{device.memory_gib:g} GiB, {place}, {device.uuid}"
            )
    return lines


def links() -> Finding:
    """What connects GPUs."""
    from gmi_drl.gmi.inventory import gpus_open, topology
    from gmi_drl.gmi.inventory.topology import PATHS

    with gpus_open() as (nvml, seen):
        found = topology(nvml, seen.gpus)
    if len(seen.gpus) < 2:
        return "fewer than two GPUs", ""
    lines = [f"GPUs {ranges(links.gpus)}: {links.kind}" for links in found.links]
    lines.append(f"{'the rest' if lines else 'all'}: {found.link}")
    lines += [
        f"{count} NVLinks: {where}" for count, where in _where(found.nvlinks, sorted(set(found.nvlinks.values())))
    ]
    lines += [f"PCIe {path}: {where}" for path, where in _where(found.paths, list(PATHS.values()))]
    return "\n".join(lines), ""


def cuda() -> Finding:
    """Whether torch can use the GPUs: compares its CUDA with the driver's, and reports its NCCL."""
    import torch

    from gmi_drl.gmi import inventory

    has = torch.version.cuda
    if has is None:
        remedy = "install a torch with CUDA (https://pytorch.org/get-started)" if inventory.visible_gpus() else ""
        return "torch is built without CUDA", remedy
    version: Any = torch.cuda.nccl.version  # untyped
    nccl = ".".join(map(str, version())) if torch.distributed.is_nccl_available() else "none"
    known = inventory.driver()
    seen = f"torch's is {has}, NCCL {nccl}"
    if known is None or known.cuda is None or int(has.partition(".")[0]) <= known.cuda[0]:
        return seen, ""
    return seen, f"the driver {known.version} runs at most CUDA {known.cuda[0]}: update it, or install another torch"


def registering() -> Finding:
    """Whether CUDA can register memory that processes share, which makes copies by DMA possible."""
    from gmi_drl.comm.memory.rank_slots import Rows
    from gmi_drl.comm.memory.segment import create_segment
    from gmi_drl.gmi import inventory

    if not inventory.visible_gpus():
        return "there is no GPU", ""
    from gmi_drl.comm.memory.pinned import try_to_register, unregister

    segment = create_segment(1, 2**20)
    (slot,) = Rows(segment, 1).slots
    os.close(segment)
    if refused := try_to_register(slot):
        return refused, "some virtual machines refuse it; gmi-drl then copies without DMA, which is slower"
    unregister(slot)
    return "CUDA registers memory that processes share, for copies by DMA", ""


def warp() -> Finding:
    """The versions of MuJoCo Warp and Warp, for physics on GPUs."""
    from importlib.metadata import version
    from importlib.util import find_spec

    if find_spec("mujoco_warp") is None or find_spec("warp") is None:
        return "mujoco_warp cannot be imported", "physics on GPUs: pip install 'gmi-drl[warp]'"
    return f"mujoco-warp {version('mujoco-warp')}, warp-lang {version('warp-lang')}", ""


def backend(entry: BackendEntry) -> Finding:
    """Whether a backend could make two GMIs of a GPU of each kind, or of cores, and what it lacks for that."""
    from gmi_drl.gmi import backend_for
    from gmi_drl.gmi.inventory import this_node, visible_gpus

    node = this_node()
    alike = {_kind(gpu): index for index, gpu in reversed(list(enumerate(visible_gpus())))}
    if not alike and entry is not PROCESS:
        return f"{entry.how}: there is no GPU", f"none is needed: the backend {PROCESS.name} cuts cores"
    layout = _example_layout(entry, sorted(alike.values()))
    why = "; ".join(dict.fromkeys(backend_for(layout).check(node, layout)))
    return entry.how, f"for two GMIs of a GPU, as an example: {why}" if "for GMI " in why else why


def document() -> dict[str, Any]:
    """Driver, GPUs and links, for `--format json`."""
    from gmi_drl.gmi.inventory import gpus_open, topology

    with gpus_open() as (nvml, seen):
        found = topology(nvml, seen.gpus)
    rows = [gpu._asdict() | {"mig_devices": [device._asdict() for device in gpu.mig_devices]} for gpu in seen.gpus]
    ways = [links.model_dump(mode="json") for links in found.links]
    driver = None if seen.driver is None else seen.driver._asdict()
    return {"driver": driver, "gpus": rows, "link": found.link, "links": ways}


def _facts(gpu: "VisibleGpu") -> str:
    parts = [gpu.model, gpu.architecture, f"{gpu.sms} SMs" if gpu.sms else ""]
    parts.append(f"{gpu.memory_gib:g} GiB" if gpu.memory_gib else "memory unknown")
    parts.append(f"{human_bytes(gpu.used_bytes)} of it in use" if gpu.used_bytes else "")
    if gpu.parent:
        parts.append(f"instance {gpu.gpu_instance}/{gpu.compute_instance} of {gpu.parent}")
    elif gpu.mig is not None:
        after = f", {_on(gpu.mig_pending)} after a reset" if gpu.mig_pending is not gpu.mig else ""
        none = ", without instances" if gpu.mig and not gpu.mig_devices else ""
        parts.append(f"MIG {_on(gpu.mig)}{after}{none}")
    parts.append(f"compute mode {gpu.compute_mode}" if gpu.compute_mode not in ("", "default") else "")
    return ", ".join(part for part in parts if part)


def _on(mode: bool | None) -> str:
    return "on" if mode else "off"


def _order(gpus: "Sequence[VisibleGpu]") -> str:
    """The remedy if CUDA may take indices in CUDA_VISIBLE_DEVICES for other GPUs; else empty."""
    indices = os.environ.get("CUDA_VISIBLE_DEVICES", "GPU-")[:1].isdigit()
    unlike = len({gpu.model for gpu in gpus}) > 1
    return OWN_ORDER if indices and unlike and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" else ""


def _numbered(indices: Sequence[int]) -> str:
    return f"GPU {indices[0]}:" if len(indices) == 1 else f"GPUs {ranges(indices)}: {len(indices)} x"


def _where(table: Mapping[tuple[int, int], Any], order: Sequence[Any]) -> list[tuple[Any, str]]:
    """For each kind of link in `order` that some pair has: the groups of GPUs in which every pair has it."""
    from gmi_drl.gmi.inventory.topology import islands

    had = [what for what in order if what in table.values()]
    groups = {what: list(islands(pair for pair in table if table[pair] == what)) for what in had}
    told = {what: " and ".join(f"GPUs {ranges(group)}" for group in groups[what]) for what in had}
    if len(had) > 1:
        told[had[-1]] = "the others"
    return list(told.items())


def ranges(numbers: Sequence[int]) -> str:
    """`[0, 1, 2, 5]` -> `"0-2,5"`."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and groups[-1][-1] == number - 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ",".join(str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups)


def _kind(gpu: "VisibleGpu") -> tuple[Any, ...]:
    """What a backend cares about: GPUs with the same key are checked once."""
    return gpu.model, gpu.mig, gpu.compute_mode, tuple(device.profile for device in gpu.mig_devices)


def _example_layout(entry: BackendEntry, gpus: Sequence[int]) -> "Layout":
    """A layout of two GMIs on each of these GPUs, or on cores. All name core 0, as it is never opened."""
    from gmi_drl.layout.layout import GMI, Device, Layout

    kind: Literal["cpu", "gpu"] = "gpu" if gpus else "cpu"
    pairs = {
        index: tuple(GMI(id=2 * place + more, num_env=1, cores=(0,)) for more in (0, 1))
        for place, index in enumerate(gpus or [0])
    }
    devices = tuple(Device(kind=kind, index=index, gmis=gmis) for index, gmis in pairs.items())
    return Layout(backend=entry.name, share_cores=True, devices=devices)
