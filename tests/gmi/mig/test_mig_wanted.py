import pytest

from gmi_drl.errors import UsageError
from gmi_drl.gmi.mig.apply.wanted import compute_shape, in_the_way, place_wholes
from gmi_drl.layout.cut_gpus import CutGpu
from gmi_drl.layout.layout import GMI
from tests.gmi.mig.gpus_with_mig import instance, state


def gmis(*profiles):
    made = tuple(GMI(id=i, num_env=1, cores=(i,), mig_profile=profile) for i, profile in enumerate(profiles))
    return CutGpu(0, "NVIDIA A100-SXM4-40GB", made)


def places(shapes):
    return sorted((shape.start, shape.profile) for shape in shapes)


def test_instances_that_are_there_are_kept_where_they_serve():
    now = state(instance(1, "3g.20gb", 0))
    assert places(place_wholes(now, ["3g.20gb", "1g.5gb"], ())) == [(0, "3g.20gb"), (6, "1g.5gb")]
    assert places(place_wholes(state(), ["3g.20gb"], ())) in ([(0, "3g.20gb")], [(4, "3g.20gb")])


def test_what_is_in_use_is_placed_around():
    now = state(instance(1, "1g.5gb", 0), instance(2, "1g.5gb", 4))
    assert places(place_wholes(now, ["3g.20gb"], [1])) == [(4, "3g.20gb")]
    assert places(place_wholes(now, ["3g.20gb"], [2])) == [(0, "3g.20gb")]
    same = state(instance(1, "3g.20gb", 0))
    assert places(place_wholes(same, ["3g.20gb"], [1])) == [(4, "3g.20gb")], "in use by others, so not ours to take"


def test_only_what_lies_in_the_way_goes():
    now = state(instance(1, "1g.5gb", 0), instance(2, "1g.5gb", 4))
    wanted = place_wholes(now, ["2g.10gb", "3g.20gb"], ())
    assert [one.id for one in in_the_way(now, wanted)] in ([1], [2])
    assert in_the_way(now, place_wholes(now, ["1g.5gb"], ())) == []


def test_what_does_not_fit_is_refused_with_names():
    with pytest.raises(UsageError, match=r"4g.20gb, 4g.20gb do not fit on one NVIDIA A100-SXM4-40GB"):
        place_wholes(state(), ["4g.20gb", "4g.20gb"], ())
    with pytest.raises(UsageError, match=r"no MIG profile '9g' that is known here, only 1g.5gb"):
        place_wholes(state(), ["9g"], ())


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        ((None, None), ["3c.7g.40gb"] * 2),
        ((None,), ["7g.40gb"]),
        ((None,) * 3, ["2c.7g.40gb"] * 3),
        (("1c.3g.20gb", "2c.3g.20gb"), ["2c.3g.20gb", "1c.3g.20gb"]),
    ],
)
def test_compute_instances_share_one_gpu_instance(names, parts):
    shape = compute_shape(state(), gmis(*names), ())
    assert [name for name, _ in shape.compute] == parts and parts[0].endswith(shape.profile)


def test_a_whole_instance_that_is_there_is_taken():
    now = state(instance(1, "3g.20gb", 4))
    assert compute_shape(now, gmis("1c.3g.20gb"), ()).start == 4
    two = state(instance(1, "3g.20gb", 4), instance(2, "3g.20gb", 0))
    assert [compute_shape(two, gmis("1c.3g.20gb"), [busy]).start for busy in (1, 2)] == [0, 4], "the idle one"


def test_compute_instances_lie_so_that_most_of_what_is_there_stays():
    now = state(instance(0, "7g.40gb", 0, [("2c.7g.40gb", 2), ("1c.7g.40gb", 6)]))
    shape = compute_shape(now, gmis("2c.7g.40gb", "1c.7g.40gb", "3c.7g.40gb"), ())
    assert {("2c.7g.40gb", 2), ("3c.7g.40gb", 4)} <= set(shape.compute)
    blocked = state(instance(0, "7g.40gb", 0, [("1c.7g.40gb", 0)]))
    assert compute_shape(blocked, gmis("4c.7g.40gb", "1c.7g.40gb"), ()).compute[0] == ("4c.7g.40gb", 0)
