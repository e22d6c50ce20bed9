from hypothesis import given
from hypothesis import strategies as st

from gmi_drl.profile import ProfilePoint
from gmi_drl.scheduler.search import Candidate, saturation, search


def point(gmis, num_env, speed=0.0, memory=0, runnable=True):
    return ProfilePoint(
        gmis_per_gpu=gmis, num_env=num_env, runnable=runnable, steps_per_second=speed, memory_bytes=memory
    )


def measured(table):
    """A `measure` that knows `{(gmis, num_env): (speed, memory)}`, and the list of what it was asked."""
    asked = []

    def measure(gmis, num_env):
        asked.append((gmis, num_env))
        return point(gmis, num_env, *table[gmis, num_env]) if (gmis, num_env) in table else None

    return measure, asked


def estimate(point, num_devices=1):
    speed = point.steps_per_second * point.gmis_per_gpu * num_devices
    return Candidate(point, projected=speed, expected=speed)


def test_the_first_runnable_num_env_can_be_chosen():
    """As printed, the first runnable point only primes the comparison (Algorithm 2, lines 10 to 14)."""
    measure, _ = measured({(1, 128): (100.0, 10), (1, 256): (90.0, 20)})
    best = search(measure, {1: [128, 256]}, estimate)[0]
    assert best.point.num_env == 128


def test_memory_that_does_not_grow_is_no_division_by_zero():
    measure, asked = measured({(1, 128): (100.0, 10), (1, 256): (150.0, 10), (1, 512): (200.0, 10)})
    assert search(measure, {1: [128, 256, 512]}, estimate)[0].point.num_env == 512
    assert saturation(point(1, 128, 100.0, 10), point(1, 256, 101.0, 10)) == float("inf") and len(asked) == 3


def test_falling_speed_is_saturation_even_when_memory_falls():
    measure, asked = measured({(1, 128): (100.0, 20), (1, 256): (80.0, 10), (1, 512): (300.0, 10)})
    search(measure, {1: [128, 256, 512]}, estimate)
    assert asked == [(1, 128), (1, 256)]


def test_a_saturated_gmi_is_not_raised_further():
    measure, asked = measured(
        {(2, 128): (100.0, 100), (2, 256): (190.0, 200), (2, 512): (200.0, 400), (2, 1024): (999.0, 800)}
    )
    best = search(measure, {2: [128, 256, 512, 1024]}, lambda point: estimate(point, 4))[0]
    assert (2, 1024) not in asked and best.projected == 200 * 2 * 4


def test_what_does_not_run_is_skipped():
    def measure(gmis, num_env):
        return point(gmis, num_env, 10.0 * num_env, num_env, runnable=gmis < 3)

    grid = {4: [128, 256], 2: [128], 1: [128]}
    assert {candidate.point.gmis_per_gpu for candidate in search(measure, grid, estimate)} == {1, 2}
    assert search(lambda gmis, num_env: None, grid, estimate) == []


def test_more_environments_than_do_not_run_are_not_tried():
    asked = []

    def measure(gmis, num_env):
        asked.append(num_env)
        return point(gmis, num_env, 10.0 * num_env, num_env, runnable=128 < num_env < 1024)

    found = search(measure, {1: [128, 256, 512, 1024, 2048]}, estimate)
    assert asked == [128, 256, 512, 1024] and [candidate.point.num_env for candidate in found] == [512, 256]


def test_the_order_is_that_of_what_is_expected():
    def judge(point):
        return Candidate(point, projected=point.steps_per_second, expected=1 / point.steps_per_second)

    measure, _ = measured({(1, 128): (100.0, 10), (2, 128): (200.0, 10)})
    assert search(measure, {2: [128], 1: [128]}, judge)[0].point.gmis_per_gpu == 1


@given(
    st.dictionaries(
        st.sampled_from([(g, n) for g in (1, 2, 4) for n in (128, 256, 512)]),
        st.tuples(st.floats(1, 1e6), st.integers(1, 10**9)),
    )
)
def test_the_best_comes_first_and_each_point_is_asked_once(table):
    measure, asked = measured(table)
    candidates = search(measure, {size: [128, 256, 512] for size in (4, 2, 1)}, estimate)
    projected = [candidate.projected for candidate in candidates]
    assert projected == sorted(projected, reverse=True) and len(set(asked)) == len(asked)
    assert all((c.point.gmis_per_gpu, c.point.num_env) in table for c in candidates) and bool(candidates) == bool(table)
