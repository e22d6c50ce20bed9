from types import SimpleNamespace

import pynvml
import pytest

from gmi_drl.bench.cases import needs
from tests.gmi.nvml.fake import FakeGpu


def test_what_is_here_is_no_obstacle():
    assert needs.package("torch", "x") is None and needs.cores(1) is None


def test_obstacles_name_the_remedy():
    assert "pip install 'gmi-drl[peers]'" in needs.package("no_such_module", "peers")
    assert "needs 5000 cores" in needs.cores(5000)


@pytest.fixture
def gpus(fake_nvml):
    """GPUs that are asked for anew whenever some are added."""

    def add(*more):
        fake_nvml.add(*more)
        needs.first_gpu.cache_clear()
        return fake_nvml

    yield add
    needs.first_gpu.cache_clear()


def test_a_gpu_and_its_counters(gpus, monkeypatch):
    gpus()
    assert "NVML shows this process none" in needs.warp_on_gpu() == needs.gpm()
    machine = gpus(FakeGpu("NVIDIA A100-SXM4-40GB"))
    assert needs.warp_on_gpu() is None and "Hopper" in needs.gpm()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    gpus(FakeGpu())
    assert needs.gpm() is None
    gpus(FakeGpu(mig=("3g.71gb",)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", machine.mig_uuids(2)[0])
    needs.first_gpu.cache_clear()
    assert needs.gpm() is None
    monkeypatch.setattr(needs, "has_warp", lambda: False)
    assert "pip install 'gmi-drl[warp]'" in needs.warp_on_gpu()


def test_counters_that_this_process_may_not_sample_are_an_obstacle(gpus):
    machine = gpus(FakeGpu())
    machine.fail("nvmlGpmSampleGet", pynvml.NVML_ERROR_NO_PERMISSION)
    assert "Insufficient Permissions" in needs.gpm() and "as root" in needs.gpm()


def test_a_driver_that_does_not_answer_is_an_obstacle(gpus):
    machine = gpus(FakeGpu())
    machine.fail("nvmlInitWithFlags", 999)
    needs.first_gpu.cache_clear()
    assert "driver" in needs.warp_on_gpu()


def test_listing_all_cases_asks_once(gpus):
    machine = gpus(FakeGpu())
    machine.log_calls()
    assert {needs.warp_on_gpu() for _ in range(9)} == {None}
    assert machine.calls().count("nvmlInitWithFlags") == 1


def test_mps_is_told_by_its_control(monkeypatch, tmp_path):
    monkeypatch.setattr(needs, "BACKENDS", SimpleNamespace(names=["process", "mps"]))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "comes with the driver" in needs.mps()
    (tmp_path / "nvidia-cuda-mps-control").touch(0o755)
    assert needs.mps() is None
    monkeypatch.setattr(needs, "BACKENDS", SimpleNamespace(names=["process"]))
    assert "backend mps" in needs.mps()
