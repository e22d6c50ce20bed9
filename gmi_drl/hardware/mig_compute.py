"""Compute instances: one GPU instance of MIG cut further (`mig-ci`), with SMs of their own and memory in common.

They are profiles of which configurations are made as of GPU instances (`mig`), on compute slices in place of memory
slices. Sizes and starts are the A100's (NVIDIA mig-parted, `pkg/mig/config/known_configs.go`; `nvidia-smi mig -lcip`
and `-lcipp`), and taken to hold wherever a GPU instance has as many compute slices. How many SMs a part has is not told
here: only CUDA knows, and a whole one has those of its profile.
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
"""By the compute slices of a GPU instance: how many a compute instance may have, large ones first, and its starts."""


def compute_name(profile: MigProfile, size: int) -> str:
    """What a compute instance of so many slices is called: `1c.3g.20gb`, or `3g.20gb` for a whole one.

    Raises:
        UsageError: If there is none of this size.
    """
    if size not in STARTS[profile.slices]:
        sizes = ", ".join(map(str, STARTS[profile.slices]))
        raise UsageError(f"{profile.name} has no compute instance of {size} slices, only of {sizes}")
    return profile.name if size == profile.slices else f"{size}c.{profile.name}"


@cache
def compute_profiles(profile: MigProfile) -> dict[int, MigProfile]:
    """The compute instances that a GPU instance may have, by their compute slices."""
    starts = STARTS[profile.slices]
    return {size: MigProfile(compute_name(profile, size), tuple(starts[size]), size) for size in starts}


def compute_fits(profile: MigProfile, sizes: Sequence[int]) -> bool:
    """Whether compute instances of these sizes fit into one GPU instance."""
    known = compute_profiles(profile)
    return set(sizes) <= known.keys() and place(known[size] for size in sizes) is not None


def even_size(profile: MigProfile, k: int) -> int | None:
    """The most slices that k compute instances of one GPU instance may have each; None if there is no room for k."""
    return next((size for size in STARTS[profile.slices] if compute_fits(profile, [size] * k)), None)
