import os
import warnings
from pathlib import Path

import pytest
from conftest import tiny_layout

from gmi_drl import run_role
from gmi_drl.errors import GmiWarning, MachineError
from gmi_drl.gmi import claimed
from gmi_drl.layout.layout import GMI, Device, Layout
from tests.gmi.nvml.fake import FakeGpu

ROLE = f"{Path(__file__).parents[1] / 'launch' / 'mps_roles.py'}:Works"
PLAIN = "share GPUs plainly"


def layout(size=2):
    gmis = tuple(GMI(id=number, num_env=1, cores=(number,)) for number in range(size))
    return Layout(backend="auto", devices=(Device(kind="gpu", gmis=gmis),))


def environment():
    with claimed([layout()], "a test") as claim, claim.cut(layout()) as instances:
        assert instances.drains is (instances.environment(0)["CUDA_MPS_PIPE_DIRECTORY"] != "/nonexistent")
        return instances.environment(0)


def test_mps_is_taken_where_it_can_be_had(fake_mps):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in environment(), "a layout for auto has no caps"
    assert fake_mps.left() == []


@pytest.mark.parametrize("why", ["nvidia-compute-utils", "is too old for MPS", "no GPU for you"])
def test_gpus_are_shared_plainly_where_mps_cannot_be_had(fake_mps, fake_nvml, monkeypatch, why):
    if why == "nvidia-compute-utils":
        monkeypatch.setenv("PATH", "/nowhere")
    elif why == "no GPU for you":
        fake_mps.habit("refuses_start", why)
    else:
        fake_nvml.write("gpus/0/architecture", "6.0")
    with pytest.warns(GmiWarning, match=rf"{PLAIN}.*{why}"):
        assert environment()["CUDA_MPS_PIPE_DIRECTORY"] == "/nonexistent"
    assert fake_mps.left() == []


def test_a_gmi_that_does_not_attach_goes_on_with_a_warning(fake_mps, tmp_path):
    fake_mps.habit("attaches_nobody")
    with pytest.warns(GmiWarning, match=r"shares its GPU plainly: GMI 0 .* without MPS"):
        assert run_role(ROLE, layout(), {"seconds": 0.1}, run_dir=tmp_path / "run") == {0: 0, 1: 1}
    assert fake_mps.left() == []


def test_a_gmi_that_has_its_gpu_alone_goes_without_mps(fake_mps, fake_nvml):
    with claimed([layout(1)], "a test") as claim, claim.cut(layout(1)) as instances:
        assert fake_mps.processes() == [] and not instances.drains
    fake_nvml.add(FakeGpu())
    three = tuple(GMI(id=number, num_env=1, cores=(0,)) for number in range(3))
    devices = (Device(kind="gpu", gmis=three[:2]), Device(kind="gpu", index=1, gmis=three[2:]))
    one = Layout(backend="auto", share_cores=True, devices=devices)
    with claimed([one], "a test") as claim, claim.cut(one) as instances:
        (daemon,) = (line for line in fake_mps.log() if " for " in line)
        assert daemon.endswith(fake_nvml.uuid(0))
        first, second, alone = (Path(instances.environment(i)["CUDA_MPS_PIPE_DIRECTORY"]) for i in range(3))
        assert first == second and first.exists() and not alone.exists()
        assert alone.parent == first.parents[1], "the mark by which it is found"
        assert instances.environment(2)["CUDA_VISIBLE_DEVICES"] == fake_nvml.uuid(1)
        instances.prove_on_device(2, os.getpid())
    assert fake_mps.left() == []


def test_a_gpu_that_has_a_daemon_is_used_by_its_clients_alone(fake_mps):
    """In compute mode exclusive process it refuses all others."""
    with claimed([layout(1), layout()], "a test") as claim:
        with claim.cut(layout(1)) as instances:
            alone = instances.environment(0)["CUDA_MPS_PIPE_DIRECTORY"]
        with claim.cut(layout()) as instances:
            assert instances.environment(0)["CUDA_MPS_PIPE_DIRECTORY"] == alone
    assert fake_mps.left() == []


def test_a_gpu_for_one_process_needs_mps(fake_mps, fake_nvml):
    fake_nvml.write("gpus/0/compute_mode", 3)
    assert environment()["CUDA_MPS_PIPE_DIRECTORY"] != "/nonexistent"
    fake_mps.habit("refuses_start", "no GPU for you")
    with pytest.raises(MachineError, match=r"no GPU for you.*exclusive process, which 2 processes cannot share"):
        environment()
    assert fake_mps.left() == []


def test_on_cores_there_is_nothing_to_choose(fake_mps):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = tiny_layout(1, backend="auto")
        with claimed([one], "a test") as claim, claim.cut(one) as instances:
            assert instances.environment(0)["CUDA_VISIBLE_DEVICES"] == "" and fake_mps.log() == []
