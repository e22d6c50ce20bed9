"""Figures 8 and 1(b): their sides, with plain sharing in the place of MPS, on cores."""

import pytest
from conftest import two_cores

from gmi_drl.benchmarks.cases.common import shared_gpu
from gmi_drl.benchmarks.cases.paper import figure_1b, figure_8
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.errors import MachineError
from gmi_drl.profiler import session as session_module
from tests.gmi.nvml.fake import FakeGpu


@two_cores
def test_serving_processes_by_each_backend(monkeypatch):
    monkeypatch.setattr(figure_8, "SIDES", {"Direct-Share": "process", "MPS": "process"})
    monkeypatch.setattr(figure_8.requirements, "warp_on_gpu", lambda: None)
    monkeypatch.setattr(figure_8.requirements, "mps", lambda: None)
    result = run_case(figure_8.case("ant", 2), repeats=1, quick=True)
    assert result.against_title == "its ratio to Direct-Share" and list(result.ratios) == ["MPS"]
    assert all(samples[0].details["gmis"] == 2 for samples in result.samples.values())


def test_two_and_three_processes_of_all_tasks():
    assert len(figure_8.CASES) == 12 and {case.name[-2:] for case in figure_8.CASES} == {"_2", "_3"}


@pytest.fixture
def ant_alone(monkeypatch):
    monkeypatch.setattr(figure_1b, "TASK_SPECS", {"ant": figure_1b.TASK_SPECS["ant"]})
    for name in ("warp_on_gpu", "gpm"):
        monkeypatch.setattr(figure_1b.requirements, name, lambda: None)


def test_missing_sm_activity_is_an_error(ant_alone):
    with pytest.raises(MachineError, match="no SM activity"):
        run_case(figure_1b.CASE, repeats=1, quick=True)


def test_activity_is_the_value(ant_alone, fake_nvml, monkeypatch):
    fake_nvml.add(FakeGpu())
    fake_nvml.write("gpus/0/sm_util", 32)
    monkeypatch.setattr(figure_1b, "QUICK_SECONDS", 3.0)
    monkeypatch.setattr(shared_gpu, "one_device", lambda node: node.model_copy(update={"gpus": None}))
    monkeypatch.setattr(session_module, "watched_gpus", lambda layout, environment: {fake_nvml.uuid(0): 0})
    result = run_case(figure_1b.CASE, repeats=1, quick=True)
    (sample,) = result.samples["ant"]
    assert sample.value == 32 and sample.details["steps_per_second"] > 0 and result.case.unit == "%"
