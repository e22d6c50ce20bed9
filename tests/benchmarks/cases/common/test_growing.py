import pytest

from gmi_drl.benchmarks.cases.common import growing

SIZES = (1, 10, 100, 1000)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_a_power_law_has_its_exponent(power):
    assert growing.exponent(SIZES, [3 * size**power for size in SIZES]) == pytest.approx(power)


def test_growth_bends_where_a_unit_costs_more_than_at_a_smaller_size():
    assert growing.bend(SIZES, [5 + size for size in SIZES]) is None
    assert growing.bend(SIZES, [5 + size for size in SIZES[:3]] + [1320]) == 1000
    assert growing.bend(SIZES, [1, 12, 126, 1100]) == 100
