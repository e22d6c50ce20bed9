import pytest

from gmi_drl.bench.cases import planning
from gmi_drl.errors import GmiError


def test_the_command_plans_what_the_case_says():
    with planning.CASE.open(True) as sides:
        ours, limit = (side() for side in sides.values())
    assert list(sides) == ["plan 10,000 GPUs", "limit"] and planning.CASE.lower_is_better
    assert ours.value > 0 and ours.details["num_gmis"] == 40_000 and limit.value == 1.0


def test_a_command_that_fails_is_no_measurement(tmp_path):
    with pytest.raises(GmiError, match=r"exit code 2: .*no such file"):
        planning.plan_in(tmp_path)
