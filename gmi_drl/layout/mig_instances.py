"""The MIG instances of the GMIs of a GPU, and their placement: those that the layout names, or else equal ones."""

from collections.abc import Sequence
from functools import cache

from gmi_drl.errors import UsageError
from gmi_drl.hardware.gpus import Gpu, gpu_named
from gmi_drl.hardware.mig_compute import compute_fits, compute_name, even_size
from gmi_drl.hardware.mig_placement import Configuration, even, place_on
from gmi_drl.hardware.mig_profiles import MigProfile
from gmi_drl.layout.cut_gpus import CutGpu
from gmi_drl.units import counted


def instance_names(gpu: CutGpu) -> list[str]:
    """The profile of the GPU instance that each GMI gets (`mig`), e.g. `["3g.20gb", "3g.20gb"]`.

    Raises:
        UsageError: if the GPU cannot have them.
    """
    model, names = gpu.catalogued, _named(gpu)
    if names:
        return names
    if equal := _equal(gpu.model, len(gpu.gmis)):
        return [equal] * len(gpu.gmis)
    room = "has no MIG: plan with another --backend" if not model.mig else "has no room for as many MIG instances"
    raise UsageError(f"GPU {gpu.index} has {counted(len(gpu.gmis), 'GMI')}, and {model.name} {room}")


def placed(gpu: CutGpu) -> Configuration:
    """A placement of the GPU instances of its GMIs (`mig`), by start.

    Raises:
        UsageError: if they do not fit.
    """
    return _placed(gpu.model, tuple(instance_names(gpu)))


def compute_names(gpu: CutGpu) -> tuple[MigProfile, list[str]]:
    """The GPU instance, and for each GMI its compute instance in it (`mig-ci`), e.g. `2c.7g.40gb`.

    Raises:
        UsageError: if there is no such GPU instance, or they do not fit into it.
    """
    model = gpu.catalogued
    names = _named(gpu)
    whole = _whole(model, names, gpu.index)
    sizes = [_slices(whole, name) for name in names] or _even_sizes(whole, gpu)
    if not compute_fits(whole, sizes):
        wanted, room = " and ".join(names), counted(whole.slices, "compute slice")
        raise UsageError(f"{wanted} do not fit into one {whole.name} of {room} (GPU {gpu.index})")
    return whole, [compute_name(whole, size) for size in sizes]


@cache
def _equal(model: str, k: int) -> str | None:
    """The profile of k equal instances. Cached, since thousands of GPUs are cut alike; so are placements."""
    profile = even(gpu_named(model).mig, k)
    return profile.name if profile else None


@cache
def _placed(model: str, names: tuple[str, ...]) -> Configuration:
    return place_on(gpu_named(model), names)


def _named(gpu: CutGpu) -> list[str]:
    """The profiles that the GMIs name; empty if none does. UsageError if only some do."""
    unnamed = [gmi.id for gmi in gpu.gmis if gmi.mig_profile is None]
    if unnamed and len(unnamed) < len(gpu.gmis):
        raise UsageError(f"GMIs {unnamed} of GPU {gpu.index} name no mig_profile and others do: name all or none")
    return [gmi.mig_profile for gmi in gpu.gmis if gmi.mig_profile is not None]


def _whole(model: Gpu, names: Sequence[str], index: int) -> MigProfile:
    wholes = sorted({name.rpartition("c.")[2] for name in names})
    if len(wholes) > 1:
        raise UsageError(f"mig-ci cuts one GPU instance of each GPU, not {' and '.join(wholes)} (GPU {index})")
    if not wholes and not model.mig:
        raise UsageError(f"{model.name} ({model.architecture}) has no MIG: plan with another --backend")
    return model.profile(wholes[0]) if wholes else max(model.mig, key=lambda profile: profile.size)


def _slices(whole: MigProfile, name: str) -> int:
    if name == whole.name:
        return whole.slices
    slices = name.partition("c.")[0]
    if not slices.isdecimal():
        raise UsageError(f"{name} is no MIG profile: a compute instance is named like 1c.{whole.name}")
    return int(slices)


def _even_sizes(whole: MigProfile, gpu: CutGpu) -> list[int]:
    k = len(gpu.gmis)
    size = even_size(whole, k)
    if size is None:
        raise UsageError(
            f"{whole.name} has room for {whole.slices} compute instances, GPU {gpu.index} has {k} GMIs: "
            f"give it {whole.slices} at most"
        )
    return [size] * k
