"""Which instances a layout wants of a GPU, and where they lie so that least of what is there has to go."""

from collections.abc import Collection, Sequence
from functools import partial

from gmi_drl.errors import UsageError
from gmi_drl.exports.devices import CutGpu
from gmi_drl.exports.mig_devices import compute_names
from gmi_drl.gmi.mig.parts import GpuInstance, MigState, Shape
from gmi_drl.mig import Configuration, configurations, multiset
from gmi_drl.mig_profiles import MigProfile


def place_wholes(state: MigState, names: Sequence[str], busy: Collection[int]) -> list[Shape]:
    """Where GPU instances of these profiles shall lie; each has one compute instance with all of its SMs.

    Of all ways it is the one for which fewest instances in use, then fewest at all, have to go.

    Args:
        state: What is there.
        names: Of the profiles.
        busy: Ids of GPU instances that are in use.

    Raises:
        UsageError: if they do not fit, or the GPU has no such profile.
    """
    wanted = multiset(_profile(state, name) for name in names)
    ways = [
        way
        for way in configurations(tuple(dict.fromkeys(wanted)))
        if multiset(placed.profile for placed in way) == wanted
    ]
    if not ways:
        raise UsageError(f"{', '.join(names)} do not fit on one {state.model}: see `gmi-drl plan --backend mig`")
    best = min(reversed(ways), key=partial(_cost, state, busy))  # those that lie furthest back come last
    return [Shape(placed.profile.name, placed.start, ((placed.profile.name, None),)) for placed in best]


def compute_shape(state: MigState, gpu: CutGpu) -> Shape:
    """`mig-ci`: the one GPU instance whose compute instances the GMIs of a GPU are.

    Raises:
        UsageError: if there is no such instance.
    """
    whole, names = compute_names(gpu)
    # Large ones first, as those may begin at few slices only; the driver places them.
    return Shape(whole.name, _start(state, whole), tuple((name, None) for name in sorted(names, reverse=True)))


def in_the_way(state: MigState, wanted: Sequence[Shape]) -> list[GpuInstance]:
    """The instances of a GPU that take memory slices which are wanted for others."""
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


def _start(state: MigState, whole: MigProfile) -> int:
    """That of an instance of this profile which is there, or its first."""
    return next((instance.start for instance in state.instances if instance.profile == whole.name), whole.starts[0])


def _slices_of(state: MigState, shape: Shape) -> range:
    return range(shape.start, shape.start + _profile(state, shape.profile).size)


def _profile(state: MigState, name: str) -> MigProfile:
    for profile in state.profiles:
        if profile.name == name:
            return profile
    known = ", ".join(profile.name for profile in state.profiles)
    raise UsageError(f"{state.model} has no MIG profile {name!r} that is known here, only {known}")
