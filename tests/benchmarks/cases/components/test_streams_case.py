import os

import pytest
from conftest import children_of, two_cores

from gmi_drl.benchmarks.cases.components import streams

CASES = [case for case in streams.CASES if "_1mb" not in case.name]


@two_cores
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_way_asks_and_is_answered(monkeypatch, case):
    monkeypatch.setattr(streams, "QUICK_SECONDS", 0.005)
    affinity = os.sched_getaffinity(0)
    with case.open(True) as sides:
        samples = {name: side() for name, side in sides.items()}
    assert list(samples) == ["gmi-drl", "own TCP sockets", "multiprocessing.Queue"]
    for sample in samples.values():
        assert sample.value > 0
        assert 0 < sample.details["p50_s"] <= sample.details["p99_s"]
    assert not children_of(os.getpid()) and os.sched_getaffinity(0) == affinity
