import pytest

from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases.components import growth
from gmi_drl.benchmarks.runner import run_case

SIZES = (1, 10, 100, 1000)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_a_power_law_has_its_exponent(power):
    assert growth.exponent(SIZES, [3 * size**power for size in SIZES]) == pytest.approx(power)


def test_growth_bends_where_a_unit_costs_more_than_at_a_smaller_size():
    assert growth.bend(SIZES, [5 + size for size in SIZES]) is None
    assert growth.bend(SIZES, [5 + size for size in SIZES[:3]] + [1320]) == 1000
    assert growth.bend(SIZES, [1, 12, 126, 1100]) == 100


@pytest.mark.parametrize("case", growth.CASES, ids=lambda case: case.name)
def test_cases_have_a_curve_of_all_sizes(case):
    result = run_case(case, repeats=1, quick=True)
    ((sample,),) = result.samples.values()
    sizes, seconds = sample.details[CURVES].values()
    assert len(sizes) == 3 and min(seconds) > 0 and not result.ratios
    assert sample.value == pytest.approx(growth.exponent(sizes, seconds))
