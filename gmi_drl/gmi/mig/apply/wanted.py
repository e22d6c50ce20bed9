"""Places the MIG instances that a layout wants so that as few existing ones as possible must be destroyed."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from gmi_drl.errors import UsageError
from gmi_drl.gmi.mig.state import GpuInstance, MigState, Shape
from gmi_drl.hardware.mig_compute import compute_profiles
from gmi_drl.hardware.mig_placement import Configuration, multiset, ways
from gmi_drl.hardware.mig_profiles import MigProfile
from gmi_drl.layout.cut_gpus import CutGpu
from gmi_drl.layout.mig_instances import compute_names


def place_wholes(state: MigState, names: Sequence[str], busy: Collection[int]) -> list[Shape]:
    """Place GPU instances of these profiles, each with one compute instance with all of its SMs.

    Of all placements it is the one for which the fewest instances in use, then the fewest at all, must be destroyed.

    Args:
        state: The existing instances.
        names: The names of the profiles.
        busy: The ids of the GPU instances in use.

    Raises:
        UsageError: if they do not fit, or the GPU has no such profile.
    """
    wanted = multiset(_profile(state, name) for name in names)
    if not (possible := ways(wanted)):
        raise UsageError(f"{', '.join(names)} do not fit on one {state.model}: see `gmi-drl plan --backend mig`")
    best = min(reversed(possible), key=partial(_cost, state, busy))  # of equal ones the first with the highest starts
    return [Shape(placed.profile.name, placed.start, ((placed.profile.name, 0),)) for placed in best]


def compute_shape(state: MigState, gpu: CutGpu, busy: Collection[int]) -> Shape:
    """`mig-ci`: place the one GPU instance of which each GMI of a GPU gets a compute instance.

    Of all placements it is the one that keeps most of its existing compute instances.

    Raises:
        UsageError: if there is no such instance.
    """
    whole, names = compute_names(gpu)
    (shape,) = place_wholes(state, [whole.name], busy)
    parts = {profile.name: profile for profile in compute_profiles(whole).values()}
    possible = [
        tuple((at.profile.name, at.start) for at in way) for way in ways(multiset(parts[name] for name in names))
    ]
    there = {(part.profile, part.start) for one in state.instances if one.place == shape.place for part in one.compute}
    return replace(shape, compute=max(possible, key=lambda way: len(there.intersection(way))))


def in_the_way(state: MigState, wanted: Sequence[Shape]) -> list[GpuInstance]:
    """The existing instances that occupy memory slices of wanted ones."""
    places = {shape.place for shape in wanted}
    taken = {slice for shape in wanted for slice in _slices_of(state, shape)}
    return [
        instance
        for instance in state.instances
        if instance.place not in places and not taken.isdisjoint(instance.slices)
    ]


def _cost(state: MigState, busy: Collection[int], way: Configuration) -> tuple[int, int, int]:
    shapes = [Shape(placed.profile.name, placed.start, ()) for placed in way]
    kept = {shape.place for shape in shapes} & {instance.place for instance in state.instances}
    goes = in_the_way(state, shapes)
    in_use = sum(instance.id in busy for instance in state.instances if instance in goes or instance.place in kept)
    return in_use, len(goes), -len(kept)


def _slices_of(state: MigState, shape: Shape) -> range:
    return range(shape.start, shape.start + _profile(state, shape.profile).size)


def _profile(state: MigState, name: str) -> MigProfile:
    for profile in state.profiles:
        if profile.name == name:
            return profile
    known = ", ".join(profile.name for profile in state.profiles)
    raise UsageError(f"{state.model} has no MIG profile {name!r} that is known here, only {known}")
