"""Compute instances: one GPU instance of MIG cut further (`mig-ci`), with SMs of their own and memory in common.

Sizes are the A100's (NVIDIA mig-parted, `pkg/mig/config/known_configs.go`; `nvidia-smi mig -lcip`), and taken to hold
wherever a GPU instance has as many compute slices. Sizes of an instance fit together if their sum is at most its own.
How many SMs a part has is not told here: only CUDA knows, and a whole one has those of its profile.
"""

from collections.abc import Sequence
from itertools import combinations_with_replacement

from gmi_drl.errors import UsageError
from gmi_drl.mig_profiles import MigProfile

SIZES = {1: (1,), 2: (2, 1), 3: (3, 2, 1), 4: (4, 2, 1), 7: (7, 4, 3, 2, 1)}
"""Compute slices that a compute instance may have, by those of its GPU instance; large ones first."""


def compute_name(profile: MigProfile, size: int) -> str:
    """What a compute instance of so many slices is called: `1c.3g.20gb`, or `3g.20gb` for a whole one.

    Raises:
        UsageError: If there is none of this size.
    """
    if size not in SIZES[profile.slices]:
        sizes = ", ".join(map(str, SIZES[profile.slices]))
        raise UsageError(f"{profile.name} has no compute instance of {size} slices, only of {sizes}")
    return profile.name if size == profile.slices else f"{size}c.{profile.name}"


def compute_fits(profile: MigProfile, sizes: Sequence[int]) -> bool:
    """Whether compute instances of these sizes fit into one GPU instance."""
    return sum(sizes) <= profile.slices and set(sizes) <= set(SIZES[profile.slices])


def compute_splits(profile: MigProfile, k: int) -> list[tuple[int, ...]]:
    """All sizes of k compute instances that fit into one GPU instance, e.g. `(3, 3)`, `(4, 3)`; large ones first."""
    return [s for s in combinations_with_replacement(SIZES[profile.slices], k) if compute_fits(profile, s)]
