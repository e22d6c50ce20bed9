from types import SimpleNamespace

from gmi_drl.bench.cases import needs
from tests.gmi.nvml.fake import FakeGpu


def test_what_is_here_is_no_obstacle():
    assert needs.package("torch", "x") is None and needs.cores(1) is None


def test_obstacles_name_the_remedy():
    assert "pip install 'gmi-drl[peers]'" in needs.package("no_such_module", "peers")
    assert "needs 5000 cores" in needs.cores(5000)


def test_a_gpu_its_counters_and_mps(fake_nvml, monkeypatch):
    assert "NVML shows this process none" in needs.warp_on_gpu() and "GPM" in needs.gpm()
    fake_nvml.add(FakeGpu("NVIDIA A100-SXM4-40GB"))
    assert needs.warp_on_gpu() is None and "Hopper" in needs.gpm()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    fake_nvml.add(FakeGpu())
    assert needs.gpm() is None
    monkeypatch.setattr(needs, "has_warp", lambda: False)
    assert "pip install 'gmi-drl[warp]'" in needs.warp_on_gpu()


def test_mps_is_told_by_its_control(monkeypatch, tmp_path):
    monkeypatch.setattr(needs, "BACKENDS", SimpleNamespace(names=["process", "mps"]))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "comes with the driver" in needs.mps()
    (tmp_path / "nvidia-cuda-mps-control").touch(0o755)
    assert needs.mps() is None
    monkeypatch.setattr(needs, "BACKENDS", SimpleNamespace(names=["process"]))
    assert "backend mps" in needs.mps()
