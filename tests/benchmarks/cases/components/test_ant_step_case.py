import pytest

from gmi_drl.benchmarks.cases.components import ant_step
from gmi_drl.benchmarks.runner import run_case


@pytest.mark.skipif(ant_step.CASE.obstacle() is not None, reason=str(ant_step.CASE.obstacle()))
def test_all_sides_are_measured(monkeypatch):
    monkeypatch.setattr(ant_step, "NUM_ENV", 8)
    result = run_case(ant_step.CASE, repeats=1, quick=True)
    assert len(result.samples) == 3 and all(spread.least > 0 for spread in result.summaries.values())
