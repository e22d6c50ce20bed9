import os

import pytest
from conftest import children_of, two_cores

from gmi_drl.benchmarks.cases.components import streams, streams_far

CASES = [case for case in streams.CASES if "_1mb" not in case.name and "_16_" not in case.name]


def test_cases_are_named_by_clients_and_cores():
    names = [case.name for case in streams.CASES]
    assert len(set(names)) == len(names)
    many = {f"streams_64kb_{clients}_clients{where}" for clients in (4, 16) for where in ("", "_two_cores")}
    assert {name for name in names if "clients" in name} == many


def measured(case):
    """A sample of each side, once the case has taken down what it has made."""
    affinity = os.sched_getaffinity(0)
    with case.open(True) as sides:
        samples = {name: side() for name, side in sides.items()}
    assert not children_of(os.getpid()) and os.sched_getaffinity(0) == affinity
    for sample in samples.values():
        assert sample.value > 0 and sample.details["cpu_s_of_request"] > 0
        assert 0 < sample.details["p50_s"] <= sample.details["p99_s"]
    return samples


@two_cores
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_way_asks_and_is_answered(monkeypatch, case):
    monkeypatch.setattr(streams, "QUICK_SECONDS", 0.005)
    assert list(measured(case)) == ["gmi-drl", "own TCP sockets", "multiprocessing.Queue"]


@pytest.mark.skipif(streams_far.obstacle() is not None, reason=str(streams_far.obstacle()))
def test_a_far_client_asks_over_a_network_that_takes_its_time(monkeypatch):
    monkeypatch.setattr(streams_far, "QUICK_SECONDS", 0.02)
    samples = measured(streams_far.CASES[-1])
    assert list(samples) == ["gmi-drl", "plain sockets"]
    assert all(sample.details["p50_s"] >= 2 * streams_far.ONE_WAY_US[-1] * 1e-6 for sample in samples.values())
