"""The `process` backend: one process per GMI, on its own cores; on a GPU plain sharing (the paper's Direct-Share)."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from gmi_drl.errors import LayoutMismatchError
from gmi_drl.gmi.claims import Shared
from gmi_drl.gmi.inventory import VisibleGpu, allowed_cores, visible_gpus
from gmi_drl.hardware.node import Node
from gmi_drl.layout.environment import NO_GPU, NO_MPS, gmi_environment
from gmi_drl.layout.layout import Layout


class ProcessBackend:
    """Gives each GMI disjoint cores and thread caps. Enforces nothing on a GPU."""

    def __init__(self) -> None:
        self.cores = allowed_cores()

    def check(self, node: Node, layout: Layout) -> list[str]:
        """Name the cores and GPUs that the node lacks, and the GPUs that so many processes cannot have."""
        doubled = [gmi.id for gmi in layout.gmis if len(set(gmi.cores)) < len(gmi.cores)]
        reasons = [f"GMI {gmi} has a core twice: name each once" for gmi in doubled]
        missing = sorted({core for gmi in layout.gmis for core in gmi.cores if core >= node.cpu.cores})
        if missing:
            reasons.append(f"the layout uses cores {_listed(missing)}, this process may use 0..{node.cpu.cores - 1}")
        devices = [device for device in layout.devices if device.kind == "gpu"]
        indices = sorted({device.index for device in devices})
        seen = len(node.model_of_each_gpu)  # also those that a plan leaves out
        if indices and indices[-1] >= seen:
            reasons.append(f"the layout uses GPUs {_listed(indices)}, this process sees {seen}")
        gpus = visible_gpus() if devices else []
        here = [(device, gpus[device.index]) for device in devices if device.index < len(gpus)]
        why = ((device.index, gpu.model, self.obstacle(gpu, len(device.gmis))) for device, gpu in here)
        return reasons + [f"GPU {index} ({model}) {obstacle}" for index, model, obstacle in why if obstacle]

    def devices(self, layout: Layout) -> list[str]:
        """Each core by its CPU number and each GPU by its UUID; for a MIG device its GPU, too, as `Shared`."""
        cores = sorted({self.cores[core] for gmi in layout.gmis for core in gmi.cores})
        gpus = sorted(set(gpus_of(layout).values()) - {NO_GPU})
        wholes = {gpu.uuid: gpu.parent for gpu in (visible_gpus() if gpus else ()) if gpu.parent}
        around = [Shared(f"gpu-{wholes[name]}") for name in gpus if name in wholes]
        return [f"core-{core}" for core in cores] + around + [f"gpu-{name}" for name in gpus]

    def held(self, layouts: Sequence[Layout]) -> AbstractContextManager[None]:
        """Do nothing: cuts share nothing."""
        return nullcontext()

    def cut(self, layout: Layout) -> AbstractContextManager["ProcessInstances"]:
        """Yield the shares; nothing on a device is changed."""
        return nullcontext(ProcessInstances(layout, self.cores, gpus_of(layout)))

    @staticmethod
    def obstacle(gpu: VisibleGpu, processes: int) -> str:
        """Why this number of processes cannot have contexts on a GPU, with the remedy; empty if they can."""
        if gpu.mig and not gpu.parent:
            return (
                "is in MIG mode: take `--backend mig`, or name its MIG devices in CUDA_VISIBLE_DEVICES (nvidia-smi -L)"
            )
        if gpu.compute_mode == "prohibited" or (gpu.compute_mode == "exclusive process" and processes > 1):
            remedy = f"let an administrator run `nvidia-smi -i {gpu.number} -c DEFAULT`"
            return f"is in compute mode {gpu.compute_mode}, which {processes} processes cannot share: {remedy}"
        return ""


class ProcessInstances:
    """The cores and the GPU of each GMI.

    Args:
        layout: The layout of the GMIs.
        cores: CPU numbers, by the layout's core indices.
        gpu_of: The UUID of each GMI's GPU, `NO_GPU` for a GMI on cores.
    """

    drains = False

    def __init__(self, layout: Layout, cores: Sequence[int], gpu_of: Mapping[int, str]) -> None:
        self.gmis, self.shares_cores = layout.gmis, layout.share_cores
        self.cores, self.gpu_of = cores, gpu_of

    def cpus(self, gmi_id: int) -> list[int]:
        """The CPU numbers of a GMI."""
        return [self.cores[core] for core in self.gmis[gmi_id].cores]

    def environment(self, gmi_id: int) -> dict[str, str]:
        """Variables for thread caps, the allocator, cores and the visible GPU."""
        gmi, gpu = self.gmis[gmi_id], self.gpu_of[gmi_id]
        own = gmi_environment(gmi, self.cpus(gmi_id), gpu, self.shares_cores, os.environ)
        return own | ({} if gpu == NO_GPU else NO_MPS)

    def prove_attached(self, gmi_id: int, pid: int) -> None:
        """Check the process's CPU affinity."""
        has, wants = sorted(os.sched_getaffinity(pid)), self.cpus(gmi_id)
        if has != sorted(wants):
            raise LayoutMismatchError(
                f"GMI {gmi_id} (process {pid}) is bound to CPUs {_listed(has)}, not {_listed(wants)}"
            )

    def prove_on_device(self, gmi_id: int, pid: int) -> None:
        """Do nothing: the process sees no other GPU."""

    def release(self, groups: Mapping[int, int]) -> None:
        """Do nothing: a share ends with its process."""


def gpus_of(layout: Layout) -> dict[int, str]:
    """The UUID of each GMI's GPU by the GMI's id, `NO_GPU` for a GMI on cores.

    Raises:
        LayoutMismatchError: if a GPU is gone.
    """
    if all(device.kind == "cpu" for device in layout.devices):
        return {gmi.id: NO_GPU for gmi in layout.gmis}
    gpus = visible_gpus()
    uuids: dict[int, str] = {}
    for device in layout.devices:
        uuid = NO_GPU
        if device.kind == "gpu":
            if device.index >= len(gpus):
                raise LayoutMismatchError(f"the layout uses GPU {device.index}, this process sees {len(gpus)}")
            uuid = gpus[device.index].uuid
        uuids |= {gmi.id: uuid for gmi in device.gmis}
    return uuids


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
