"""The environment variables of a GMI's process, set before it imports torch. Pure: does not look at the machine.

Backends start GMIs with them, and `plan --format env` writes them to a file. Those of MPS are from NVIDIA Multi-Process
Service, "Environment Variables".
"""

import math
from collections.abc import Mapping, Sequence

from gmi_drl.layout.layout import GMI

CPUS_VARIABLE = "GMI_DRL_CPUS"
"""The variable with the CPU numbers, comma-separated, that a GMI's process binds itself to before it imports torch."""

NO_GPU = ""
"""CUDA_VISIBLE_DEVICES of a GMI on cores."""

NO_MPS = {"CUDA_MPS_PIPE_DIRECTORY": "/nonexistent"}
"""Variables of a GMI without MPS, also if a daemon runs in the default folder of this machine.

CUDA works without MPS if it finds no daemon: nvidia-cuda-mps-control(1).
"""

SPIN_COUNT = "20000"
# With the default, threads of OpenMP keep spinning on cores that MuJoCo's threads need next.

KEEP_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
# Otherwise glibc returns a network's activations to the kernel, with thousands of page faults in each update.


def gmi_environment(
    gmi: GMI, cpus: Sequence[int], gpu: str, share_cores: bool, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The variables of a GMI: thread counts, allocator settings, cores and the visible GPU.

    Args:
        gmi: The GMI.
        cpus: CPU numbers of its cores.
        gpu: The value of CUDA_VISIBLE_DEVICES, e.g. a UUID; `NO_GPU` on cores.
        share_cores: Whether GMIs of the layout share cores; then threads must not spin.
        inherited: Variables that the process already has. The user's settings of spinning and allocator are kept.
    """
    threads = str(gmi.torch_threads)
    caps = {name: threads for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    usual = dict(KEEP_FREED_MEMORY)
    if max(len(cpus), gmi.torch_threads) > 1:
        usual["GOMP_SPINCOUNT"] = "0" if share_cores else SPIN_COUNT
    chosen = {name: inherited.get(name, value) for name, value in usual.items()}
    return caps | chosen | {CPUS_VARIABLE: ",".join(map(str, cpus)), "CUDA_VISIBLE_DEVICES": gpu}


def without_mps(inherited: Mapping[str, str]) -> dict[str, str]:
    """An environment without the variables of MPS, e.g. of a Slurm job, whose caps could only be tightened."""
    return {name: value for name, value in inherited.items() if not name.startswith("CUDA_MPS_")}


def thread_percentage(share: float) -> int:
    """CUDA_MPS_ACTIVE_THREAD_PERCENTAGE for a share of a GPU: whole percents, at least 1.

    Rounded down, since MPS rounds up to whole SMs: a third is 33. A whole percent stays exact, although 100 x 0.29 is
    28.999999999999996.
    """
    return max(1, math.floor(round(100 * share, 6)))


def mps_limits(share: float | None, memory_limit_bytes: int | None) -> dict[str, str]:
    """The variables that limit a client of MPS on the only GPU of its daemon.

    Args:
        share: Part of the GPU's SMs, above 0, at most 1; None for no cap. It is a cap, not a reservation.
        memory_limit_bytes: The client's memory on the GPU, set in whole MiB, rounded down; None for no limit.
    """
    limits = {} if share is None else {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(thread_percentage(share))}
    if memory_limit_bytes is not None:
        limits["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={max(1, memory_limit_bytes // 2**20)}M"
    return limits
