"""Into how many GMIs a backend can cut a GPU of a model, by the catalogue: for plans of described nodes.

Functions `…_refuses` take a model, the GMIs of each GPU and the bytes of a GMI. They return why the backend cannot make
this cut; None if it can, or if the catalogue does not have the model. What else this machine lacks, backends check
themselves (`gmi.Backend.check`). Functions `…_gives` describe what an equal cut gives each GMI.
"""

from collections.abc import Callable

from gmi_drl.hardware.gpus import Gpu, find_gpu
from gmi_drl.hardware.mig_compute import compute_name, even_size
from gmi_drl.hardware.mig_placement import even, most
from gmi_drl.hardware.mig_profiles import MigProfile
from gmi_drl.units import GIB, human_bytes, human_gib

Refuses = Callable[[str, int, int], str | None]

MPS_CLIENTS = 48
"""Most clients of one GPU; 60 from CUDA 13.1 on (https://docs.nvidia.com/deploy/mps, "Limitations")."""

MOST_SLICES = 7
"""Compute slices assumed for a GPU that the catalogue does not have."""


def mps_refuses(model: str, gmis: int, memory_bytes: int) -> str | None:
    """MPS limits the number of clients. It needs Volta or newer, as all GPUs of the catalogue are."""
    most = mps_clients(model)
    return f"MPS has at most {most} clients of {model}, not {gmis}" if gmis > most else None


def mps_clients(model: str) -> int:
    """The most clients of MPS on a GPU, or on a MIG device, which NVML calls `GPU MIG PROFILE`.

    A MIG device has fewer, "proportionally to the compute instance size" (NVIDIA Multi-Instance GPU User Guide, "CUDA
    Concurrency Mechanisms"): here by the compute slices in its name over those of the GPU.
    """
    gpu, _, profile = model.partition(" MIG ")
    if not profile:
        return MPS_CLIENTS
    known = find_gpu(gpu)
    profiles = known.mig if known else ()
    return MPS_CLIENTS * int(profile[0]) // max((one.slices for one in profiles), default=MOST_SLICES)


def mig_refuses(model: str, gmis: int, memory_bytes: int) -> str | None:
    """MIG needs a GPU that has it, an equal instance for each GMI, and enough memory in each."""
    gpu = find_gpu(model)
    if gpu is None:
        return None
    if not gpu.mig:
        return _no_mig(gpu)
    profile = even(gpu.mig, gmis)
    if profile is None:
        return f"{gpu.name} has at most {max(map(most, gpu.mig))} MIG instances, not {gmis}"
    return _too_small(profile, memory_bytes)


def mig_ci_refuses(model: str, gmis: int, memory_bytes: int) -> str | None:
    """As `mig_refuses`, for compute instances of one GPU instance, which share its memory."""
    gpu = find_gpu(model)
    if gpu is None:
        return None
    if not gpu.mig:
        return _no_mig(gpu)
    fitting = [profile for profile in gpu.mig if even_size(profile, gmis)]
    if not fitting:
        largest = max(profile.slices for profile in gpu.mig)
        return f"an instance of {gpu.name} has at most {largest} compute instances, not {gmis}"
    return _too_small(max(fitting, key=lambda profile: profile.size), gmis * memory_bytes)


def mig_gives(model: str, gmis: int) -> str:
    """E.g. "2 x 3g.20gb, 42 SMs and 19.5 GiB each"; empty if the model is unknown or cannot be cut in this way."""
    gpu = find_gpu(model)
    profile = even(gpu.mig, gmis) if gpu else None
    if profile is None:
        return ""
    sms = "" if profile.sms is None else f", {profile.sms} SMs"
    memory = "" if profile.memory_gib is None else f"{' and' if sms else ','} {profile.memory_gib:.1f} GiB"
    return f"{gmis} x {profile.name}{sms}{memory} each"


def mig_ci_gives(model: str, gmis: int) -> str:
    """E.g. "2 x 3c.7g.40gb, 39.2 GiB in common": compute instances of one GPU instance that is the whole GPU."""
    gpu = find_gpu(model)
    whole = max(gpu.mig, key=lambda profile: profile.size, default=None) if gpu else None
    size = even_size(whole, gmis) if whole else None
    if whole is None or size is None:
        return ""
    memory = "memory" if whole.memory_gib is None else f"{whole.memory_gib:.1f} GiB"
    return f"{gmis} x {compute_name(whole, size)}, {memory} in common"


def _no_mig(gpu: Gpu) -> str:
    return f"{gpu.name} ({gpu.architecture}) has no MIG"


def _too_small(profile: MigProfile, memory_bytes: int) -> str | None:
    if profile.memory_gib is None or memory_bytes <= profile.memory_gib * GIB:
        return None
    return f"{human_bytes(memory_bytes)} are more than the {human_gib(profile.memory_gib)} of a {profile.name}"
