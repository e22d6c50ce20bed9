from collections import Counter
from itertools import chain, combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmi_drl.errors import UsageError
from gmi_drl.hardware.gpus import CATALOGUE, gpu_named
from gmi_drl.hardware.mig_placement import (
    configurations,
    even,
    most,
    multiset,
    multisets,
    place,
    place_on,
)

A100, A30, H100 = gpu_named("A100-SXM4-40GB"), gpu_named("A30"), gpu_named("H100 SXM")
WITH_MIG = [gpu for gpu in CATALOGUE if gpu.mig]
SHAPES = {tuple((p.starts, p.size, p.media) for p in gpu.mig): gpu for gpu in WITH_MIG}
every_shape = pytest.mark.parametrize("gpu", SHAPES.values(), ids=lambda gpu: gpu.name)
"""A GPU of each kind of placements."""

MOST = {
    "A30": {"1g.6gb": 4, "1g.6gb+me": 1, "2g.12gb": 2, "2g.12gb+me": 1, "4g.24gb": 1},
    "A100-SXM4-40GB": {
        "1g.5gb": 7, "1g.5gb+me": 1, "1g.10gb": 4, "2g.10gb": 3, "3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1,
    },
    "H100 PCIe": {
        "1g.10gb": 7, "1g.10gb+me": 1, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1,
    },
    "B200": {
        "1g.23gb": 7, "1g.23gb+me": 1, "1g.45gb": 4, "2g.45gb": 3, "3g.90gb": 2, "4g.90gb": 1, "7g.180gb": 1,
    },
    "RTX PRO 6000 Blackwell": {"1g.24gb": 4, "1g.24gb+me": 1, "2g.48gb": 2, "4g.96gb": 1},
}  # fmt: skip
"""Number of instances, as the MIG User Guide lists it."""


def base(gpu):
    """1g, 2g, 3g, 4g and 7g: neither media extensions nor 1g of double memory."""
    plain = [profile for profile in gpu.mig if not profile.media]
    return tuple(next(p for p in plain if p.slices == g) for g in sorted({p.slices for p in plain}))


def names(profiles):
    return [profile.name for profile in profiles]


def maximal(profiles):
    """Configurations that have no room for a further instance."""
    every = configurations(profiles)
    with_room = {others[:i] + others[i + 1 :] for others in every for i in range(len(others))}
    return [configuration for configuration in every if configuration not in with_room]


def legal(placed):
    """By the definition, slice by slice."""
    taken = list(chain.from_iterable(range(start, start + profile.size) for profile, start in placed))
    media = [profile for profile, _ in placed if profile.media]
    return len(taken) == len(set(taken)) and len(media) <= 1 and all(start in p.starts for p, start in placed)


def by_force(profiles, at_most):
    """All multisets that can be placed, of every way to choose so many places."""
    places = [(profile, start) for profile in profiles for start in profile.starts]
    chosen = chain.from_iterable(combinations(places, k) for k in range(at_most + 1))
    return {multiset(profile for profile, _ in placed) for placed in chosen if legal(placed)}


def test_base_profiles_of_an_a100_have_19_maximal_configurations_of_14_multisets():
    found = maximal(base(A100))
    assert names(base(A100)) == ["1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]
    assert len(found) == 19 and len({multiset(p.profile for p in placed) for placed in found}) == 14


def test_base_profiles_of_an_a30_have_5_maximal_configurations_of_4_multisets():
    found = maximal(base(A30))
    assert names(base(A30)) == ["1g.6gb", "2g.12gb", "4g.24gb"]
    assert len(found) == 5 and len({multiset(p.profile for p in placed) for placed in found}) == 4


@pytest.mark.parametrize(
    ("gpu", "left_out", "at_most"),
    [
        ("A30", (), 5),
        ("RTX PRO 6000 Blackwell", (), 5),
        ("A100-SXM4-40GB", ("1g.5gb+me",), 7),
        ("A100-SXM4-40GB", ("1g.10gb", "3g.20gb", "7g.40gb"), 7),
        ("B200", ("1g.23gb", "1g.23gb+me"), 8),
    ],
)
def test_what_is_accepted_can_be_placed_and_what_is_rejected_cannot(gpu, left_out, at_most):
    profiles = tuple(profile for profile in gpu_named(gpu).mig if profile.name not in left_out)
    assert set(multisets(profiles)) == by_force(profiles, at_most)


@every_shape
def test_every_multiset_has_places(gpu):
    for wanted, placed in multisets(gpu.mig).items():
        assert legal(placed) and multiset(instance.profile for instance in placed) == wanted
        assert list(placed) == sorted(placed, key=lambda instance: instance.start)


@every_shape
def test_compute_slices_suffice(gpu):
    """It is no condition of the solver: NVIDIA's placements see to it."""
    most_slices = max(profile.slices for profile in gpu.mig)
    assert all(sum(profile.slices for profile in wanted) <= most_slices for wanted in multisets(gpu.mig))


@pytest.mark.parametrize("gpu", WITH_MIG, ids=lambda gpu: gpu.name)
def test_no_multiset_has_more_than_the_gpu(gpu):
    for wanted in multisets(gpu.mig):
        assert sum(profile.sms or 0 for profile in wanted) <= gpu.sms
        assert sum(profile.memory_gib or 0 for profile in wanted) <= gpu.memory_gib


@every_shape
def test_a_maximal_configuration_has_no_room_and_every_other_one_has(gpu):
    full = set(maximal(gpu.mig))
    places = [(profile, start) for profile in gpu.mig for start in profile.starts]
    for placed in configurations(gpu.mig):
        assert any(legal([*placed, other]) for other in places) != (placed in full)
    assert len(set(configurations(gpu.mig))) == len(configurations(gpu.mig))


@pytest.mark.parametrize("gpu", MOST)
def test_as_many_fit_as_nvidia_says(gpu):
    assert {profile.name: most(profile) for profile in gpu_named(gpu).mig} == MOST[gpu]


wanted_of_a_gpu = st.sampled_from(WITH_MIG).flatmap(lambda gpu: st.lists(st.sampled_from(gpu.mig), max_size=4))


@given(wanted_of_a_gpu, st.randoms(use_true_random=False))
def test_place_tries_all_places_in_whatever_order(wanted, random):
    shuffled = random.sample(wanted, len(wanted))
    placed = place(shuffled)
    if placed is None:
        every = product(*(profile.starts for profile in wanted))
        assert not any(legal(list(zip(wanted, starts, strict=True))) for starts in every)
    else:
        assert legal(placed) and Counter(i.profile for i in placed) == Counter(wanted) and place(wanted) == placed
        assert place(wanted[1:]) is not None


def test_instances_lie_far_back_where_they_may():
    assert [(i.profile.name, i.start) for i in place_on(A100, ["1g.5gb"])] == [("1g.5gb", 6)]
    assert [(i.profile.name, i.start) for i in place_on(A100, ["3g.20gb"])] == [("3g.20gb", 4)]
    # The guide's second example, which a driver refuses in this order and takes with 3g first.
    placed = place_on(A100, ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"])
    assert [(i.profile.name, i.start) for i in placed][-1] == ("3g.20gb", 4)


def test_what_does_not_fit_is_told_with_what_does():
    with pytest.raises(
        UsageError, match=r"2 x 4g.20gb and 1 x 1g.5gb do not fit on one A100-SXM4-40GB, which has room"
    ):
        place_on(A100, ["4g.20gb", "1g.5gb", "4g.20gb"])
    with pytest.raises(UsageError, match=r"room for 4 x 1g.6gb, 2 x 2g.12gb, 1 x 4g.24gb, 1 x 1g.6gb\+me or"):
        place_on(A30, ["1g.6gb+me", "2g.12gb+me"])
    with pytest.raises(UsageError, match=r"no MIG profile '9g'"):
        place_on(A30, ["9g"])


def test_even_takes_the_largest_profile_of_which_as_many_fit():
    found = {k: even(A100.mig, k) for k in range(1, 9)}
    assert [profile and profile.name for profile in found.values()] == [
        "7g.40gb", "3g.20gb", "2g.10gb", "1g.10gb", "1g.5gb", "1g.5gb", "1g.5gb", None,
    ]  # fmt: skip
    assert even(A30.mig, 3).name == "1g.6gb"
