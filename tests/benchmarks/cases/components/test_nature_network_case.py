from gmi_drl.benchmarks.cases.components import nature_network
from gmi_drl.benchmarks.runner import run_case


def test_all_sides_are_measured():
    result = run_case(nature_network.CASE, repeats=1, quick=True)
    assert len(result.samples) == 3 and all(spread.least > 0 for spread in result.summaries.values())
