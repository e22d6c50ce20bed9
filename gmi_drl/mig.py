"""MIG, offline: which GPU instances fit on a GPU side by side, and where each of them lies.

An instance takes memory slices in a row, from one of the starts of its profile. Instances fit if no two of them take
the same slice and at most one has media extensions. Their compute slices then suffice, too, on all GPUs that we know.

`profiles` are what may be cut, e.g. `gpu.mig`. There are few ways to cut a GPU, so all are made once and looked up.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal, NamedTuple

from gmi_drl.errors import UsageError
from gmi_drl.gpus import Gpu
from gmi_drl.mig_profiles import MigProfile
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


def splits(profiles: tuple[MigProfile, ...], k: int) -> list[Multiset]:
    """All multisets of k instances that fit. None has media extensions, which nothing here uses."""
    return [split for split in multisets(_without_media(profiles)) if len(split) == k]


def fairest(profiles: tuple[MigProfile, ...], k: int, by: Literal["sms", "memory"]) -> list[Multiset]:
    """The multisets of k instances whose smallest instance is largest; those that have most in all come first.

    Args:
        profiles: What may be cut.
        k: Instances wanted, at least one. For more than fit the list is empty.
        by: What counts: SMs, or memory in slices.

    Raises:
        UsageError: By SMs, where a profile's are not known.
    """
    sizes = {split: [_size(profile, by) for profile in split] for split in splits(profiles, k)}
    best = max(map(min, sizes.values()), default=0)
    fair = [split for split in sizes if min(sizes[split]) == best]
    return sorted(fair, key=lambda split: -sum(sizes[split]))


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


def _size(profile: MigProfile, by: Literal["sms", "memory"]) -> int:
    if by == "memory":
        return profile.size
    if profile.sms is None:
        raise UsageError(f"how many SMs {profile.name} has is not known: compare by memory, or ask CUDA on such a GPU")
    return profile.sms
