"""The `process` backend: one process per GMI, on its own cores; on a GPU plain sharing (the paper's Direct-Share)."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from gmi_drl.errors import LayoutMismatchError
from gmi_drl.gmi.backend import CPUS_VARIABLE
from gmi_drl.gmi.inventory import allowed_cores, visible_gpus
from gmi_drl.hardware import Node
from gmi_drl.layout import Layout

NO_GPU = ""
"""CUDA_VISIBLE_DEVICES of a GMI on cores."""

SPIN_COUNT = "20000"
# With the default, threads of OpenMP keep spinning on cores that MuJoCo's own threads need next.

KEEP_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
# glibc gives a network's activations back to the kernel and faults them in again, thousands of pages in each update.


class ProcessBackend:
    """Gives each GMI disjoint cores and thread caps. Enforces nothing on a GPU."""

    def __init__(self) -> None:
        self.cores = allowed_cores()

    def check(self, node: Node, layout: Layout) -> list[str]:
        """Cores and GPUs that the layout names and the node lacks."""
        reasons = []
        missing = sorted({core for gmi in layout.gmis for core in gmi.cores if core >= node.cpu.cores})
        if missing:
            reasons.append(f"the layout uses cores {_listed(missing)}, this process may use 0..{node.cpu.cores - 1}")
        gpus = sorted({device.index for device in layout.devices if device.kind == "gpu"})
        if gpus and gpus[-1] >= node.num_gpus:
            reasons.append(f"the layout uses GPUs {_listed(gpus)}, this process sees {node.num_gpus}")
        return reasons

    def devices(self, layout: Layout) -> list[str]:
        """Each core, by its CPU number, and each GPU, by its UUID."""
        cores = sorted({self.cores[core] for gmi in layout.gmis for core in gmi.cores})
        gpus = sorted(set(_gpus_of(layout).values()) - {NO_GPU})
        return [f"core-{core}" for core in cores] + [f"gpu-{name}" for name in gpus]

    def held(self, layouts: Sequence[Layout]) -> AbstractContextManager[None]:
        """Cuts share nothing."""
        return nullcontext()

    def cut(self, layout: Layout) -> AbstractContextManager["ProcessInstances"]:
        """There is nothing to cut, and nothing is left when the processes have ended."""
        return nullcontext(ProcessInstances(layout, self.cores))


class ProcessInstances:
    """Who gets which cores and GPU.

    Args:
        layout: Of these GMIs.
        cores: The CPU numbers that its core indices stand for.
    """

    def __init__(self, layout: Layout, cores: Sequence[int]) -> None:
        self.gmis, self.shares_cores = layout.gmis, layout.share_cores
        self.cores, self.gpu_of = cores, _gpus_of(layout)

    def cpus(self, gmi_id: int) -> list[int]:
        """CPU numbers of a GMI."""
        return [self.cores[core] for core in self.gmis[gmi_id].cores]

    def environment(self, gmi_id: int) -> dict[str, str]:
        """Thread caps, the allocator's settings, cores and the visible GPU."""
        cpus = self.cpus(gmi_id)
        threads = str(self.gmis[gmi_id].torch_threads)
        caps = {name: threads for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        count = "0" if self.shares_cores else SPIN_COUNT
        several = max(len(cpus), self.gmis[gmi_id].torch_threads) > 1
        spin = {"GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", count)} if several else {}
        place = {CPUS_VARIABLE: ",".join(map(str, cpus)), "CUDA_VISIBLE_DEVICES": self.gpu_of[gmi_id]}
        memory = {name: os.environ.get(name, value) for name, value in KEEP_FREED_MEMORY.items()}
        return caps | spin | memory | place

    def prove_attached(self, gmi_id: int, pid: int) -> None:
        """Ask the kernel which cores the process is bound to."""
        has, wants = sorted(os.sched_getaffinity(pid)), self.cpus(gmi_id)
        if has != sorted(wants):
            raise LayoutMismatchError(
                f"GMI {gmi_id} (process {pid}) is bound to CPUs {_listed(has)}, not {_listed(wants)}"
            )


def _gpus_of(layout: Layout) -> dict[int, str]:
    """The UUID of each GMI's GPU, `NO_GPU` for one on cores."""
    uuids = [gpu.uuid for gpu in visible_gpus()]
    return {
        gmi.id: uuids[device.index] if device.kind == "gpu" else NO_GPU
        for device in layout.devices
        for gmi in device.gmis
    }


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
