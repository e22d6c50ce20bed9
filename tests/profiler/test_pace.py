import math

import pytest

from gmi_drl.profiler.pace import Pace
from gmi_drl.profiler.session import Measured


def measured(iterations, iteration_s):
    return Measured(128, iterations, iteration_s, 1.0, 0.0, 0, 0, {})


def test_a_point_tells_what_the_next_takes_beside_its_iterations():
    pace = Pace(1.5, 12, beside_s=2.0)
    assert pace.expected_s() == 2.0 + 2 * 1.5
    pace.has_run(5.0, measured(iterations=3, iteration_s=1.0))
    assert pace.beside_s == 1.0
    assert pace.expected_s(1.0) == 1.0 + 1.5 + 1.0 and pace.expected_s(4.0) == 1.0 + 8.0
    pace.has_run(0.5, measured(iterations=3, iteration_s=1.0))
    assert pace.beside_s == 0.0


@pytest.mark.parametrize(
    ("left_s", "walks", "useful"), [(30, 2, 2), (30, 10, 2), (150, 10, 10), (math.inf, 3, 3), (11, 4, 1), (0, 4, 1)]
)
def test_as_many_walks_as_can_be_useful_share_what_is_left(left_s, walks, useful):
    assert Pace(1.5, 12).share(left_s, walks) == 1 / useful
