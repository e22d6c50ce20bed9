import pytest

from gmi_drl.benchmarks.cases.components import costs
from gmi_drl.benchmarks.runner import run_case


@pytest.mark.skipif(costs.CASE.obstacle() is not None, reason=str(costs.CASE.obstacle()))
def test_the_parts_are_parts_of_the_whole(monkeypatch):
    monkeypatch.setattr(costs, "NUM_ENV", 64)
    result = run_case(costs.CASE, repeats=1, quick=True)
    (sample,) = result.samples["gmi-drl"]
    parts = sample.details
    assert 0 < parts["sim_s"] + parts["act_s"] + parts["learn_s"] <= sample.value
    assert {name for name in parts if name.endswith("forward_s")} == {"elu_forward_s", "linear_forward_s"}
    assert 0 < parts["elu_forward_s"] + parts["linear_forward_s"] < parts["act_s"] + parts["learn_s"]
