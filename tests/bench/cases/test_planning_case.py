import pytest

from gmi_drl.bench.cases import planning
from gmi_drl.errors import GmiError


def test_a_plan_and_its_command_are_timed_against_a_limit():
    with planning.CASE.open(True) as sides:
        ours, limit = (side() for side in sides.values())
    assert list(sides) == ["plan 10,000 GPUs", "limit"] and planning.CASE.lower_is_better
    assert ours.value > 0 and ours.details["command_s"] > 0 and limit.value == 1.0


def test_a_command_that_fails_is_no_measurement(tmp_path):
    with pytest.raises(GmiError, match=r"exit code 2: .*no such file"):
        planning.command(tmp_path)
