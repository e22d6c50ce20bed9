from measures import measured, point

from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler import grid_of
from gmi_drl.scheduler.candidate import Candidate
from gmi_drl.scheduler.paper_algorithm_2 import algorithm_2


def estimate(point, num_devices=1):
    speed = point.steps_per_second * point.gmis_per_gpu * num_devices
    return Candidate(point, projected=speed, expected=speed)


def test_the_first_runnable_num_env_can_be_chosen():
    """As printed, the first runnable point only primes the comparison (Algorithm 2, lines 10 to 14)."""
    measure, _ = measured({(1, 128): (100.0, 10), (1, 256): (90.0, 20)})
    assert algorithm_2(measure, grid_of({1: [128, 256]}), estimate)[0].point.num_env == 128


def test_the_first_saturated_step_stops_it_though_better_points_follow():
    measure, asked = measured(
        {(2, 128): (100.0, 100), (2, 256): (190.0, 200), (2, 512): (200.0, 400), (2, 1024): (999.0, 800)}
    )
    best = algorithm_2(measure, grid_of({2: [128, 256, 512, 1024]}), lambda point: estimate(point, 4))[0]
    assert Cut(2, 1024) not in asked and best.projected == 200 * 2 * 4


def test_a_dip_of_a_thousandth_stops_it():
    measure, asked = measured({(1, 128): (10_000.0, 0), (1, 256): (9_990.0, 0), (1, 512): (16_000.0, 0)})
    assert algorithm_2(measure, grid_of({1: [128, 256, 512]}), estimate)[0].point.num_env == 128 and len(asked) == 2


def test_what_does_not_run_is_passed_over():
    def measure(cut):
        return point(1, cut.num_env, 10.0 * cut.num_env, cut.num_env, runnable=cut.num_env != 256)

    found = algorithm_2(measure, grid_of({1: [128, 256, 512]}), estimate)
    assert [candidate.point.num_env for candidate in found] == [512, 128]


def test_the_order_is_that_of_what_is_expected():
    def predict(point):
        return Candidate(point, projected=point.steps_per_second, expected=1 / point.steps_per_second)

    measure, _ = measured({(1, 128): (100.0, 10), (2, 128): (200.0, 10)})
    assert algorithm_2(measure, grid_of({2: [128], 1: [128]}), predict)[0].point.gmis_per_gpu == 1
