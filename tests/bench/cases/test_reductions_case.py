import os

import pytest
from conftest import children_of, two_cores

from gmi_drl.bench.case import CURVES
from gmi_drl.bench.cases import reductions
from gmi_drl.bench.runner import run_case


@two_cores
def test_every_legal_reduction_is_measured_at_every_length(monkeypatch):
    monkeypatch.setattr(reductions, "NUMELS", (100, reductions.TOLD))
    monkeypatch.setattr(reductions, "REDUCES", (8, 8))
    case = reductions.CASES[0]
    result = run_case(case, repeats=1, quick=True)
    assert next(iter(result.samples)) == "MPR-shm" and list(result.samples)[-1] == reductions.FREE_GLOO
    assert {"MPR-gloo", "MRR", "HAR", "SHARD"} < result.samples.keys()
    for (sample,) in result.samples.values():
        assert 0 < sample.value == pytest.approx(sample.details[CURVES]["ms"][1] / 1000)
    assert not children_of(os.getpid())


def test_shapes_are_of_as_many_processes_as_they_say():
    assert {count: sum(map(len, mapping)) for count, mapping in reductions.SHAPES.items()} == {2: 2, 3: 3, 4: 4}
    assert [case.name for case in reductions.CASES] == ["reductions_2", "reductions_3", "reductions_4"]
