import os

from conftest import children_of

from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases.paper import figure_10
from gmi_drl.benchmarks.runner import run_case


def test_both_tasks_are_trained_by_one_gmi_with_every_number_of_environments(monkeypatch):
    monkeypatch.setattr(figure_10, "QUICK_NUM_ENVS", (8, 16))
    monkeypatch.setattr(figure_10, "QUICK_SECONDS", 0.05)
    result = run_case(figure_10.CASE, repeats=1, quick=True)
    assert list(result.samples) == ["ant", "humanoid"]
    for (sample,) in result.samples.values():
        worlds, memory_gib, speeds = sample.details[CURVES].values()
        assert worlds == [8, 16] and min(memory_gib) > 0.05 and sample.value == max(speeds)
    assert not children_of(os.getpid())
