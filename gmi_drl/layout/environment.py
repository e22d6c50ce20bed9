"""The environment variables that make a process a GMI, complete before it imports torch. Pure: reads no machine.

Backends start GMIs with them, and `plan --format env` writes them to a file. Of MPS: NVIDIA Multi-Process Service,
"Environment Variables".
"""

import math
from collections.abc import Mapping, Sequence

from gmi_drl.layout.layout import GMI

CPUS_VARIABLE = "GMI_DRL_CPUS"
"""CPU numbers, comma-separated, that a GMI's process binds itself to before it imports torch."""

NO_GPU = ""
"""CUDA_VISIBLE_DEVICES of a GMI on cores."""

NO_MPS = {"CUDA_MPS_PIPE_DIRECTORY": "/nonexistent"}
"""Of a GMI that is to share its GPU plainly, although a daemon may run in the usual folder of this machine.

CUDA runs on without MPS where it finds no daemon: nvidia-cuda-mps-control(1).
"""

SPIN_COUNT = "20000"
# With the default, threads of OpenMP keep spinning on cores that MuJoCo's own threads need next.

KEEP_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
# glibc gives a network's activations back to the kernel and faults them in again, thousands of pages in each update.


def gmi_environment(
    gmi: GMI, cpus: Sequence[int], gpu: str, share_cores: bool, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Thread caps, the allocator's settings, cores and the visible GPU.

    Args:
        gmi: Whose process it is for.
        cpus: CPU numbers of its cores.
        gpu: What CUDA_VISIBLE_DEVICES says, e.g. a UUID; `NO_GPU` on cores.
        share_cores: Whether GMIs of the layout take turns on cores, where a thread that spins keeps another from work.
        inherited: What the process has already: the user's own word counts, on spinning and on the allocator.
    """
    threads = str(gmi.torch_threads)
    caps = {name: threads for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    usual = dict(KEEP_FREED_MEMORY)
    if max(len(cpus), gmi.torch_threads) > 1:
        usual["GOMP_SPINCOUNT"] = "0" if share_cores else SPIN_COUNT
    chosen = {name: inherited.get(name, value) for name, value in usual.items()}
    return caps | chosen | {CPUS_VARIABLE: ",".join(map(str, cpus)), "CUDA_VISIBLE_DEVICES": gpu}


def without_mps(inherited: Mapping[str, str]) -> dict[str, str]:
    """An environment without what its user has set of MPS, e.g. in a Slurm job: caps that one could only tighten."""
    return {name: value for name, value in inherited.items() if not name.startswith("CUDA_MPS_")}


def thread_percentage(share: float) -> int:
    """CUDA_MPS_ACTIVE_THREAD_PERCENTAGE of a share of a GPU: whole percents, at least 1.

    Rounded down, because MPS rounds up to the SMs that it can give: thirds are 33. What is a whole percent stays so,
    although 100 x 0.29 is 28.999999999999996.
    """
    return max(1, math.floor(round(100 * share, 6)))


def mps_limits(share: float | None, memory_limit_bytes: int | None) -> dict[str, str]:
    """What a client of MPS may have of the one GPU that its daemon has.

    Args:
        share: Of the GPU's SMs, above 0, at most 1; None for all. A cap, no reservation.
        memory_limit_bytes: Beyond it CUDA is out of memory; None for no limit. MPS is told whole MiB, rounded down.
    """
    limits = {} if share is None else {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(thread_percentage(share))}
    if memory_limit_bytes is not None:
        limits["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={max(1, memory_limit_bytes // 2**20)}M"
    return limits
