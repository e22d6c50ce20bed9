"""The `process` backend: one process per GMI, on its own cores; on a GPU plain sharing (the paper's Direct-Share)."""

import os
from contextlib import ExitStack

from gmi_drl.errors import LayoutMismatchError
from gmi_drl.gmi.claims import claim
from gmi_drl.gmi.inventory import allowed_cores, this_node, visible_gpus
from gmi_drl.hardware import Node
from gmi_drl.layout import GMI, Layout

CPUS_VARIABLE = "GMI_DRL_CPUS"
"""CPU numbers, comma-separated, that a GMI's process binds itself to before it imports torch."""

SPIN_COUNT = "20000"
# With the default, threads of OpenMP keep spinning on cores that MuJoCo's own threads need next.

KEEP_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
# glibc gives a network's activations back to the kernel and faults them in again, thousands of pages in each update.


class ProcessBackend:
    """Gives each GMI disjoint cores and thread caps. Enforces nothing on a GPU."""

    def __init__(self, purpose: str, *, claims: bool = True, spin_count: str | None = SPIN_COUNT) -> None:
        """Make the backend of one layout.

        Args:
            purpose: Tells others who holds the cores, e.g. the run folder.
            claims: False where the caller has claimed the devices, because several layouts live on them by turns.
            spin_count: GOMP_SPINCOUNT of GMIs with several cores, unless the user has set it; None for libgomp's own.
        """
        self.purpose = purpose
        self._claims_devices, self._spin_count = claims, spin_count
        self.cores = allowed_cores()
        self.gmis: dict[int, GMI] = {}
        self.gpu_of: dict[int, str] = {}
        self._claims = ExitStack()

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

    def open(self, layout: Layout) -> None:
        """Check against this machine and claim the cores and GPUs."""
        reasons = self.check(this_node(), layout)
        if reasons:
            raise LayoutMismatchError("; ".join(reasons) + ": make a layout for this machine with `gmi-drl plan`")
        self.gmis = {gmi.id: gmi for gmi in layout.gmis}
        uuids = [gpu.uuid for gpu in visible_gpus()]
        for device in layout.devices:
            self.gpu_of |= {gmi.id: uuids[device.index] if device.kind == "gpu" else "" for gmi in device.gmis}
        if self._claims_devices:
            self._claims.enter_context(claim(self._devices(), self.purpose))

    def _devices(self) -> list[str]:
        cores = sorted(self.cores[core] for gmi in self.gmis.values() for core in gmi.cores)
        gpus = sorted({name for name in self.gpu_of.values() if name})
        return [f"core-{core}" for core in cores] + [f"gpu-{name}" for name in gpus]

    def cpus(self, gmi_id: int) -> list[int]:
        """CPU numbers of a GMI."""
        return [self.cores[core] for core in self.gmis[gmi_id].cores]

    def environment(self, gmi_id: int) -> dict[str, str]:
        """Thread caps, the allocator's settings, cores and the visible GPU."""
        cpus = self.cpus(gmi_id)
        threads = str(self.gmis[gmi_id].torch_threads)
        caps = {name: threads for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        spin_count = os.environ.get("GOMP_SPINCOUNT", self._spin_count)
        spin = {"GOMP_SPINCOUNT": spin_count} if len(cpus) > 1 and spin_count is not None else {}
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

    def close(self) -> None:
        """Release the claims."""
        self._claims.close()


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
