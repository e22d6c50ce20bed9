"""What an equal cut by MIG gives each GMI of a GPU, in words, for the reasons of plans: by the catalogue."""

from gmi_drl.hardware.gpus import find_gpu
from gmi_drl.hardware.mig_compute import compute_name, even_size
from gmi_drl.hardware.mig_placement import even


def mig_gives(model: str, gmis: int) -> str:
    """E.g. "2 x 3g.20gb, 42 SMs and 19.5 GiB each"; empty for a model that is unknown or cannot be cut so."""
    gpu = find_gpu(model)
    profile = even(gpu.mig, gmis) if gpu else None
    if profile is None:
        return ""
    sms = "" if profile.sms is None else f", {profile.sms} SMs"
    memory = "" if profile.memory_gib is None else f"{' and' if sms else ','} {profile.memory_gib:.1f} GiB"
    return f"{gmis} x {profile.name}{sms}{memory} each"


def mig_ci_gives(model: str, gmis: int) -> str:
    """E.g. "2 x 3c.7g.40gb, 39.2 GiB in common": compute instances of one GPU instance, which is the whole GPU."""
    gpu = find_gpu(model)
    whole = max(gpu.mig, key=lambda profile: profile.size, default=None) if gpu else None
    size = even_size(whole, gmis) if whole else None
    if whole is None or size is None:
        return ""
    memory = "memory" if whole.memory_gib is None else f"{whole.memory_gib:.1f} GiB"
    return f"{gmis} x {compute_name(whole, size)}, {memory} in common"
