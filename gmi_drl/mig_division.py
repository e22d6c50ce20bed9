"""What an equal cut by MIG gives each GMI of a GPU, for plans: by the catalogue, so for machines elsewhere, too."""

from dataclasses import dataclass

from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.gpus import Gpu, find_gpu
from gmi_drl.mig import even, most
from gmi_drl.mig_compute import SIZES, compute_name


@dataclass(frozen=True)
class Division:
    """An equal cut of one GPU.

    Args:
        how: In words, e.g. "2 x 3g.20gb, 42 SMs and 19.5 GiB each".
        memory_gib: What each GMI can take if all take as much; None if that is not known.
    """

    how: str
    memory_gib: float | None


def mig_division(model: str, gmis: int) -> Division | None:
    """Into GPU instances (`mig`), the largest of which so many fit.

    Args:
        model: Of the GPU.
        gmis: How many it is cut into.

    Returns:
        None for a model that is not in the catalogue.

    Raises:
        NoFeasiblePlanError: if it has no MIG, or no room for so many.
    """
    if (gpu := find_gpu(model)) is None:
        return None
    if (profile := even(gpu.mig, gmis)) is None:
        raise NoFeasiblePlanError(_no_room(gpu, gmis, max((most(one) for one in gpu.mig), default=0)))
    sms = "" if profile.sms is None else f", {profile.sms} SMs"
    memory = "" if profile.memory_gib is None else f"{' and' if sms else ','} {profile.memory_gib:.1f} GiB"
    return Division(f"{gmis} x {profile.name}{sms}{memory} each", profile.memory_gib)


def mig_ci_division(model: str, gmis: int) -> Division | None:
    """Into compute instances of one GPU instance, which is the whole GPU (`mig-ci`); as `mig_division`."""
    if (gpu := find_gpu(model)) is None:
        return None
    whole = max(gpu.mig, key=lambda profile: profile.size, default=None)
    sizes = [size for size in SIZES[whole.slices] if size * gmis <= whole.slices] if whole else []
    if whole is None or not sizes:
        raise NoFeasiblePlanError(_no_room(gpu, gmis, whole.slices if whole else 0))
    how = f"{gmis} x {compute_name(whole, sizes[0])}"
    if whole.memory_gib is None:
        return Division(f"{how} with memory in common", None)
    return Division(f"{how}, {whole.memory_gib:.1f} GiB in common", whole.memory_gib / gmis)


def _no_room(gpu: Gpu, gmis: int, at_most: int) -> str:
    if not at_most:
        return f"{gpu.name} ({gpu.architecture}) has no MIG: plan with another --backend"
    return f"{gmis} GMIs on a {gpu.name} are more than MIG cuts it into, {at_most}: ask for fewer"
