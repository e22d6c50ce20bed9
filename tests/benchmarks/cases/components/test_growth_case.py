import pytest

from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases.common import growing
from gmi_drl.benchmarks.cases.components import growth
from gmi_drl.benchmarks.runner import run_case


@pytest.mark.parametrize("case", growth.CASES, ids=lambda case: case.name)
def test_cases_have_a_curve_of_all_sizes(case):
    result = run_case(case, repeats=1, quick=True)
    ((sample,),) = result.samples.values()
    sizes, seconds = sample.details[CURVES].values()
    assert len(sizes) == 3 and min(seconds) > 0 and not result.ratios
    assert sample.value == pytest.approx(growing.exponent(sizes, seconds))
