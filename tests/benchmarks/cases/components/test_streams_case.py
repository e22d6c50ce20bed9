import os

import pytest
from conftest import children_of, two_cores

from gmi_drl.benchmarks.cases.components import streams
from gmi_drl.benchmarks.runner import run_case

CASES = [case for case in streams.CASES if "_1mb" not in case.name]


@two_cores
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_way_asks_and_is_answered(monkeypatch, case):
    monkeypatch.setattr(streams, "QUICK_SECONDS", 0.005)
    affinity = os.sched_getaffinity(0)
    result = run_case(case, repeats=1, quick=True)
    assert list(result.samples) == ["gmi-drl", "own TCP sockets", "multiprocessing.Queue"]
    for (sample,) in result.samples.values():
        assert sample.value > 0
        assert 0 < sample.details["p50_s"] <= sample.details["p99_s"]
    assert not children_of(os.getpid()) and os.sched_getaffinity(0) == affinity
