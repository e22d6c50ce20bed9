"""Placement of MIG instances without a GPU: which GPU instances fit on a GPU together, and where each lies.

An instance takes consecutive memory slices from one of the starts of its profile. Instances fit if no two take the same
slice, and at most one has media extensions. Then their compute slices suffice, too, on all known GPUs.

`profiles` are those that a GPU has, e.g. `gpu.mig`. There are few ways to cut a GPU, so all are made once and looked
up.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from gmi_drl.errors import UsageError
from gmi_drl.hardware.gpus import Gpu
from gmi_drl.hardware.mig_profiles import MigProfile
from gmi_drl.units import alternatives


class Placement(NamedTuple):
    """A GPU instance: its profile and its first memory slice."""

    profile: MigProfile
    start: int

    @property
    def end(self) -> int:
        """The memory slice after its last."""
        return self.start + self.profile.size


Configuration = tuple[Placement, ...]
"""Instances that fit together, by start."""

Multiset = tuple[MigProfile, ...]
"""Profiles, each as often as wanted; largest first."""


@cache
def configurations(profiles: tuple[MigProfile, ...]) -> tuple[Configuration, ...]:
    """All ways to cut a GPU, without duplicates, also the empty one and those that leave slices free."""
    placements = [Placement(profile, start) for profile in profiles for start in profile.starts]
    found: list[Configuration] = [()]
    for placement in sorted(placements, key=lambda placement: placement.start):
        found += [(*others, placement) for others in found if _fits_behind(others, placement)]
    return tuple(found)


@cache
def multisets(profiles: tuple[MigProfile, ...]) -> dict[Multiset, Configuration]:
    """All multisets of profiles that fit, with a configuration of each.

    Of several it is the one with the latest starts: 3g at 4 leaves room for 4g, which can only start at 0.
    """
    return {multiset(instance.profile for instance in placed): placed for placed in configurations(profiles)}


def multiset(wanted: Iterable[MigProfile]) -> Multiset:
    """The profiles in the order of `Multiset`."""
    return tuple(sorted(wanted, key=lambda profile: (-profile.slices, -profile.size, profile.name)))


def ways(wanted: Multiset) -> list[Configuration]:
    """All configurations of exactly these profiles; those with the latest starts come last."""
    every = configurations(tuple(dict.fromkeys(wanted)))
    return [way for way in every if multiset(instance.profile for instance in way) == wanted]


def place(wanted: Iterable[MigProfile]) -> Configuration | None:
    """A configuration of these profiles; None if they do not fit."""
    sought = multiset(wanted)
    return multisets(tuple(dict.fromkeys(sought))).get(sought)


def place_on(gpu: Gpu, names: Sequence[str]) -> Configuration:
    """A configuration of the profiles of these names on a GPU, e.g. `["3g.20gb", "3g.20gb"]`.

    Raises:
        UsageError: If the GPU lacks one of them, or they do not fit.
    """
    placed = place(gpu.profile(name) for name in names)
    if placed is None:
        wanted = " and ".join(f"{count} x {name}" for name, count in Counter(names).items())
        rooms = alternatives([f"{most(profile)} x {profile.name}" for profile in gpu.mig])
        raise UsageError(f"{wanted} do not fit on one {gpu.name}, which has room for {rooms}, or fewer of several")
    return placed


def most(profile: MigProfile) -> int:
    """The most instances of this profile on a GPU without others."""
    return max(len(others) for others in configurations((profile,)))


def even(profiles: tuple[MigProfile, ...], k: int) -> MigProfile | None:
    """The largest profile of which k instances fit, by compute slices, then by memory; None if there is none."""
    enough = [profile for profile in _without_media(profiles) if most(profile) >= k]
    return max(enough, key=lambda profile: (profile.slices, profile.size), default=None)


def _fits_behind(others: Configuration, placement: Placement) -> bool:
    if others and others[-1].end > placement.start:
        return False
    return not (placement.profile.media and any(other.profile.media for other in others))


def _without_media(profiles: tuple[MigProfile, ...]) -> tuple[MigProfile, ...]:
    return tuple(profile for profile in profiles if not profile.media)
