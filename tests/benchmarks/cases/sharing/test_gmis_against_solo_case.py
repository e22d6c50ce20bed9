import os

import pytest
from conftest import children_of, two_cores

from gmi_drl.benchmarks.cases.sharing import gmis_against_solo as gmis
from gmi_drl.benchmarks.runner import run_case


def test_solo_is_given_its_threads_and_both_cores():
    layouts = gmis.layouts()
    assert [gmi.cores for gmi in layouts[gmis.OURS].gmis] == [(0,), (1,)]
    assert {gmi.cores for name in layouts if name != gmis.OURS for gmi in layouts[name].gmis} == {(0, 1)}
    assert layouts[gmis.ONE_THREAD].gmis[0].torch_threads == 1 and layouts[gmis.BEST_SOLO].gmis[0].torch_threads == 2


@two_cores
@pytest.mark.parametrize("case", gmis.CASES, ids=lambda case: case.name)
def test_all_sides_have_as_many_environments(monkeypatch, case):
    monkeypatch.setattr(gmis, "TOTAL", 32)
    monkeypatch.setattr(gmis, "TOTALS", (16, 32))
    monkeypatch.setattr(gmis, "QUICK_SECONDS", 0.05)
    result = run_case(case, repeats=1, quick=True)
    shapes = {name: samples[0].details for name, samples in result.samples.items()}
    assert list(shapes) == [gmis.OURS, gmis.BEST_SOLO, gmis.DEFAULTS, gmis.ONE_THREAD]
    assert all(spread.least > 0 for spread in result.summaries.values())
    assert {shape["gmis"] * shape["num_env"] for shape in shapes.values()} in ({16}, {32})
    assert shapes[gmis.OURS]["gmis"] == 2 and shapes[gmis.OURS]["learn_s"] > 0 and not children_of(os.getpid())
