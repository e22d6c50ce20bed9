"""MIG, offline: which GPU instances fit on a GPU side by side, and where each of them lies.

An instance takes memory slices in a row, from one of the starts of its profile. Instances fit if no two of them take
the same slice and at most one has media extensions. Their compute slices then suffice, too, on all GPUs that we know.

`profiles` are what may be cut, e.g. `gpu.mig`. There are few ways to cut a GPU, so all are made once and looked up.
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
    """A GPU instance: of which profile, and its first memory slice."""

    profile: MigProfile
    start: int

    @property
    def end(self) -> int:
        """The memory slice behind its last."""
        return self.start + self.profile.size


Configuration = tuple[Placement, ...]
"""Instances that fit side by side, by where they begin."""

Multiset = tuple[MigProfile, ...]
"""Profiles, each as often as it is wanted; large ones first."""


@cache
def configurations(profiles: tuple[MigProfile, ...]) -> tuple[Configuration, ...]:
    """All ways to cut a GPU, each once: the empty one, and those that leave room."""
    placements = [Placement(profile, start) for profile in profiles for start in profile.starts]
    found: list[Configuration] = [()]
    for placement in sorted(placements, key=lambda placement: placement.start):
        found += [(*others, placement) for others in found if _fits_behind(others, placement)]
    return tuple(found)


def maximal(profiles: tuple[MigProfile, ...]) -> list[Configuration]:
    """The placement-maximal configurations: beside their instances no other one can be placed."""
    every = configurations(profiles)
    with_room = {others[:i] + others[i + 1 :] for others in every for i in range(len(others))}
    return [configuration for configuration in every if configuration not in with_room]


@cache
def multisets(profiles: tuple[MigProfile, ...]) -> dict[Multiset, Configuration]:
    """All multisets of profiles that fit, and where the instances of each may lie.

    Of several ways it is the one that lies furthest back: 3g at 4 leaves room for 4g, which only begins at 0.
    """
    return {multiset(instance.profile for instance in placed): placed for placed in configurations(profiles)}


def multiset(wanted: Iterable[MigProfile]) -> Multiset:
    """In the order in which multisets are looked up."""
    return tuple(sorted(wanted, key=lambda profile: (-profile.slices, -profile.size, profile.name)))


def ways(wanted: Multiset) -> list[Configuration]:
    """All places that instances of these profiles may have, all at once; those that lie furthest back come last."""
    every = configurations(tuple(dict.fromkeys(wanted)))
    return [way for way in every if multiset(instance.profile for instance in way) == wanted]


def place(wanted: Iterable[MigProfile]) -> Configuration | None:
    """Where instances of these profiles may lie, all at once; None if they do not fit."""
    sought = multiset(wanted)
    return multisets(tuple(dict.fromkeys(sought))).get(sought)


def place_on(gpu: Gpu, names: Sequence[str]) -> Configuration:
    """Where instances of the profiles of these names may lie on a GPU, e.g. `["3g.20gb", "3g.20gb"]`.

    Raises:
        UsageError: If it lacks one of them, or they do not fit.
    """
    placed = place(gpu.profile(name) for name in names)
    if placed is None:
        wanted = " and ".join(f"{count} x {name}" for name, count in Counter(names).items())
        rooms = alternatives([f"{most(profile)} x {profile.name}" for profile in gpu.mig])
        raise UsageError(f"{wanted} do not fit on one {gpu.name}, which has room for {rooms}, or fewer of several")
    return placed


def most(profile: MigProfile) -> int:
    """How many instances of this profile fit on a GPU that has no others."""
    return max(len(others) for others in configurations((profile,)))


def even(profiles: tuple[MigProfile, ...], k: int) -> MigProfile | None:
    """The largest profile of which k instances fit: first by compute slices, then by memory; None if there is none."""
    enough = [profile for profile in _without_media(profiles) if most(profile) >= k]
    return max(enough, key=lambda profile: (profile.slices, profile.size), default=None)


def _fits_behind(others: Configuration, placement: Placement) -> bool:
    if others and others[-1].end > placement.start:
        return False
    return not (placement.profile.media and any(other.profile.media for other in others))


def _without_media(profiles: tuple[MigProfile, ...]) -> tuple[MigProfile, ...]:
    return tuple(profile for profile in profiles if not profile.media)
