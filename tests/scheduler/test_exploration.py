import pytest
from hypothesis import given
from hypothesis import strategies as st
from measures import measured, point

from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler import grid_of
from gmi_drl.scheduler.exploration import GPU_NUM_ENVS, ceiling, saturation, search


def walked(speeds, errors=None, memory=0):
    """How many numbers of environments a walk tries that finds these speeds (0: it does not run) and errors."""
    errors = errors or [0.0] * len(speeds)
    asked = []

    def measure(cut):
        num_env = cut.num_env
        asked.append(num_env)
        speed = speeds[num_env]
        return point(1, num_env + 1, speed, memory * 2**num_env, errors[num_env], runnable=speed > 0)

    search(measure, [Cut(1, place) for place in range(len(speeds))])
    return len(asked)


def test_memory_that_does_not_grow_is_no_division_by_zero():
    assert saturation(point(1, 128, 100.0, 10), point(1, 256, 101.0, 10)) == float("inf")
    assert walked([100.0, 150.0, 200.0], memory=0) == 3


def test_no_gain_is_saturation_whatever_memory_does():
    assert saturation(point(1, 128, 100.0, 10), point(1, 256, 100.0, 10)) == 0.0
    assert saturation(point(1, 128, 100.0, 20), point(1, 256, 100.0, 10)) == 0.0


def test_falling_speed_is_saturation_even_when_memory_falls():
    assert saturation(point(1, 128, 100.0, 20), point(1, 256, 80.0, 10)) == pytest.approx(-0.2)


def test_two_saturated_steps_in_a_row_end_a_walk_and_one_does_not():
    assert walked([100.0, 90.0, 80.0, 300.0]) == 3
    assert walked([100.0, 90.0, 120.0, 110.0, 300.0, 200.0]) == 6


def test_a_gain_that_does_not_pay_for_its_memory_is_saturation():
    assert walked([100.0, 100.5, 101.0, 300.0], memory=1000) == 3
    assert walked([100.0, 115.0, 130.0, 300.0], memory=1000) == 4


def test_a_dip_within_the_noise_is_no_saturation():
    dips = [100.0, 99.0, 98.0, 97.0]
    assert walked(dips, errors=[0.01] * 4) == 4
    assert walked(dips, errors=[0.001] * 4) == 3


def test_noise_counts_on_both_sides_twice():
    before, after = point(1, 128, 100.0, 10, 0.05), point(1, 256, 100.0, 20, 0.1)
    assert saturation(before, after, 2.0) == pytest.approx(1.2 / 0.9 - 1)
    assert saturation(before, after) == 0.0
    assert saturation(point(1, 128, 100.0, 10, 0.6), after, 2.0) == float("inf")


def test_a_point_without_noise_of_its_own_is_as_noisy_as_the_one_before():
    """A single iteration tells none."""
    assert walked([100.0, 99.0, 98.0, 97.0, 96.0], errors=[0.01, 0.0, 0.0, 0.0, 0.0]) == 5
    assert walked([100.0, 99.0, 98.0, 97.0, 96.0], errors=[0.001, 0.0, 0.0, 0.0, 0.0]) == 3


def test_where_no_noise_is_known_some_is_assumed():
    assert walked([100.0, 99.9, 99.8, 300.0]) == 4


def test_one_failure_ends_nothing_and_two_in_a_row_end_a_walk():
    assert walked([100.0, 0.0, 150.0, 0.0, 200.0]) == 5
    assert walked([0.0, 100.0, 200.0]) == 3
    assert walked([100.0, 0.0, 0.0, 200.0]) == 3
    assert walked([0.0] * 8) == 2


def test_points_that_run_behind_one_that_fails_are_found():
    def measure(cut):
        return point(1, cut.num_env, 10.0 * cut.num_env, cut.num_env, runnable=cut.num_env != 512)

    assert [found.num_env for found in search(measure, grid_of({1: [128, 256, 512, 1024]}))] == [128, 256, 1024]


def test_every_size_is_walked_and_what_nothing_is_known_of_is_passed_over():
    measure, asked = measured({(4, 128): (100.0, 10), (1, 512): (90.0, 20)})
    found = search(measure, grid_of({size: [128, 256, 512] for size in (4, 2, 1)}))
    assert [(some.gmis_per_gpu, some.num_env) for some in found] == [(4, 128), (1, 512)] and len(asked) == 9


@given(
    st.dictionaries(
        st.sampled_from([(g, n) for g in (1, 2, 4) for n in (128, 256, 512)]),
        st.tuples(st.floats(1, 1e6), st.integers(1, 10**9), st.floats(0, 1)),
    )
)
def test_each_point_is_asked_once_and_given_as_it_was_measured(table):
    measure, asked = measured(table)
    found = search(measure, grid_of({size: [128, 256, 512] for size in (4, 2, 1)}))
    assert len(set(asked)) == len(asked) and bool(found) == bool(table)
    assert all(some == point(*place, *table[place]) for some in found if (place := (some.gmis_per_gpu, some.num_env)))


H200 = {256: 89.8, 1024: 317, 2048: 533, 4096: 850, 8192: 1290, 16384: 1650, 32768: 1990, 65536: 2220}
"""Thousands of steps/s by environments in all, as one GMI of an H200 does."""


def guessed(worth, sharing=None, grid=None, fails=lambda cut: False):
    """What is asked for on a GPU where k GMIs do this part of what one does with as many environments in all."""
    asked = []

    def measure(cut):
        asked.append((cut.gmis_per_gpu, cut.num_env))
        total = H200.get(cut.uncut.num_env, 1000.0) * (sharing or {}).get(cut.gmis_per_gpu, 1.0)
        return point(cut.gmis_per_gpu, cut.num_env, total / cut.gmis_per_gpu, runnable=not fails(cut))

    search(measure, grid or grid_of({1: GPU_NUM_ENVS}), worth)
    return asked


def steps(cut, speed):
    return cut.gmis_per_gpu * speed


def useful(cut, speed):
    """By a noise scale of 34k samples and a horizon of 16."""
    return steps(cut, speed) / (1 + 16 * cut.uncut.num_env / 34_000)


def test_on_a_gpu_no_number_is_asked_for_that_cannot_be_better():
    assert guessed(steps) == [(1, 4096), (1, 16384), (1, 65536)], "few environments do no more steps"
    assert guessed(useful) == [(1, num_env) for num_env in (4096, 16384, 1024, 8192, 2048)], "nor are many useful"


def test_several_gmis_begin_with_as_many_environments_in_all_as_the_best():
    grid = grid_of({1: GPU_NUM_ENVS, 2: GPU_NUM_ENVS})
    rest = guessed(useful, {2: 0.6}, grid)[5:]
    assert rest[0] == (2, 2048) and len(rest) == 2, rest
    assert guessed(steps, {2: 0.6}, grid)[3:] == [(2, 32768), (2, 65536)]


def test_more_environments_are_not_slower_nor_faster_in_proportion():
    low, high = point(1, 1000, 100.0), point(1, 4000, 300.0)
    assert ceiling(Cut(1, 2000), [low, high]) == 200.0
    assert ceiling(Cut(1, 3500), [low, high]) == 300.0
    assert ceiling(Cut(1, 500), [low, high]) == 100.0
    assert ceiling(Cut(1, 8000), [low, high]) == 600.0
    assert ceiling(Cut(1, 3500), [low, point(1, 4000, 50.0)]) == 100.0, "4000 are too many"
    assert ceiling(Cut(1, 8000), []) == float("inf")


def test_on_a_gpu_where_many_environments_fail_fewer_are_tried():
    assert [n for _, n in guessed(steps, fails=lambda cut: cut.num_env > 2048)] == [4096, 16384, 1024, 2048]
    assert [n for _, n in guessed(steps, fails=lambda cut: True)] == [4096, 16384, 1024]
    assert [n for _, n in guessed(steps, fails=lambda cut: cut.num_env == 4096)] == [4096, 16384, 65536]


def test_by_saturation_environments_rise_whatever_the_order_of_the_grid():
    assert [n for _, n in guessed(None)] == sorted(GPU_NUM_ENVS)
