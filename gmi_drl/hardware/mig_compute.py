"""Compute instances (`mig-ci`): parts of one GPU instance of MIG, with their own SMs and shared memory.

They are placed like GPU instances (`mig`), but on compute slices instead of memory slices. Sizes and starts are those
of the A100 (NVIDIA mig-parted, `pkg/mig/config/known_configs.go`; `nvidia-smi mig -lcip` and `-lcipp`), and assumed for
all GPU instances with the same number of compute slices. The SMs of a part are not known here, only to CUDA; a whole
one has those of its profile.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from gmi_drl.errors import UsageError
from gmi_drl.hardware.mig_placement import place
from gmi_drl.hardware.mig_profiles import MigProfile

STARTS: Mapping[int, Mapping[int, Sequence[int]]] = {
    1: {1: (0,)},
    2: {2: (0,), 1: range(2)},
    3: {3: (0,), 2: (0,), 1: range(3)},
    4: {4: (0,), 2: (0, 2), 1: range(4)},
    7: {7: (0,), 4: (0,), 3: (0, 4), 2: (0, 2, 4), 1: range(7)},
}
"""By the compute slices of a GPU instance: the sizes of compute instances, largest first, with their starts."""


def compute_name(profile: MigProfile, size: int) -> str:
    """The name of a compute instance of `size` slices: `1c.3g.20gb`, or `3g.20gb` for a whole one.

    Raises:
        UsageError: If there is none of this size.
    """
    if size not in STARTS[profile.slices]:
        sizes = ", ".join(map(str, STARTS[profile.slices]))
        raise UsageError(f"{profile.name} has no compute instance of {size} slices, only of {sizes}")
    return profile.name if size == profile.slices else f"{size}c.{profile.name}"


@cache
def compute_profiles(profile: MigProfile) -> dict[int, MigProfile]:
    """The compute instances that a GPU instance can have, by compute slices."""
    starts = STARTS[profile.slices]
    return {size: MigProfile(compute_name(profile, size), tuple(starts[size]), size) for size in starts}


def compute_fits(profile: MigProfile, sizes: Sequence[int]) -> bool:
    """Whether compute instances of these sizes fit into one GPU instance."""
    known = compute_profiles(profile)
    return set(sizes) <= known.keys() and place(known[size] for size in sizes) is not None


def even_size(profile: MigProfile, k: int) -> int | None:
    """The most slices that each of k equal compute instances of one GPU instance can have; None if k do not fit."""
    return next((size for size in STARTS[profile.slices] if compute_fits(profile, [size] * k)), None)
