import pytest

from gmi_drl.benchmarks.cases.components import ppo_update
from gmi_drl.benchmarks.runner import run_case


@pytest.mark.skipif(ppo_update.CASE.obstacle() is not None, reason=str(ppo_update.CASE.obstacle()))
def test_all_sides_are_measured(monkeypatch):
    monkeypatch.setattr(ppo_update, "NUM_ENV", 8)
    result = run_case(ppo_update.CASE, repeats=1, quick=True)
    assert len(result.samples) == 2 and all(spread.least > 0 for spread in result.summaries.values())
