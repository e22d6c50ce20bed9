from types import SimpleNamespace

import pynvml
import pytest

from gmi_drl.benchmarks.cases.common import requirements
from tests.gmi.nvml.fake import FakeGpu


def test_what_is_here_is_no_obstacle():
    assert requirements.package("torch", "x") is None and requirements.cores(1) is None


def test_obstacles_name_the_remedy():
    assert "pip install 'gmi-drl[peers]'" in requirements.package("no_such_module", "peers")
    assert "needs 5000 cores" in requirements.cores(5000)


@pytest.fixture
def gpus(fake_nvml):
    """GPUs that are asked for anew whenever some are added."""

    def add(*more):
        fake_nvml.add(*more)
        requirements.first_gpu.cache_clear()
        return fake_nvml

    yield add
    requirements.first_gpu.cache_clear()


def test_a_gpu_and_its_counters(gpus, monkeypatch):
    gpus()
    assert "NVML shows none to this process" in requirements.warp_on_gpu() == requirements.gpm()
    machine = gpus(FakeGpu("NVIDIA A100-SXM4-40GB"))
    assert requirements.warp_on_gpu() is None and "Hopper" in requirements.gpm()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    gpus(FakeGpu())
    assert requirements.gpm() is None
    gpus(FakeGpu(mig=("3g.71gb",)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", machine.mig_uuids(2)[0])
    requirements.first_gpu.cache_clear()
    assert requirements.gpm() is None
    monkeypatch.setattr(requirements, "has_warp", lambda: False)
    assert "pip install 'gmi-drl[warp]'" in requirements.warp_on_gpu()


def test_counters_that_this_process_may_not_sample_are_an_obstacle(gpus):
    machine = gpus(FakeGpu())
    machine.fail("nvmlGpmSampleGet", pynvml.NVML_ERROR_NO_PERMISSION)
    assert "Insufficient Permissions" in requirements.gpm() and "as root" in requirements.gpm()


def test_a_driver_that_does_not_answer_is_an_obstacle(gpus):
    machine = gpus(FakeGpu())
    machine.fail("nvmlInitWithFlags", 999)
    requirements.first_gpu.cache_clear()
    assert "driver" in requirements.warp_on_gpu()


def test_listing_all_cases_asks_once(gpus):
    machine = gpus(FakeGpu())
    machine.log_calls()
    assert {requirements.warp_on_gpu() for _ in range(9)} == {None}
    assert machine.calls().count("nvmlInitWithFlags") == 1


def test_mps_needs_its_control_program(monkeypatch, tmp_path):
    monkeypatch.setattr(requirements, "BACKENDS", SimpleNamespace(names=["process", "mps"]))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "comes with the driver" in requirements.mps()
    (tmp_path / "nvidia-cuda-mps-control").touch(0o755)
    assert requirements.mps() is None
    monkeypatch.setattr(requirements, "BACKENDS", SimpleNamespace(names=["process"]))
    assert "backend mps" in requirements.mps()
