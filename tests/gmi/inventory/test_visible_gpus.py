import pynvml
import pytest

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.gmi.inventory import driver, nvml_open, this_node, visible_gpus, visible_gpus_report
from gmi_drl.hardware.node import Gpus
from tests.gmi.nvml.fake import FakeGpu

A100 = "NVIDIA A100-SXM4-40GB"


def test_a_gpu_with_all_that_nvml_tells(fake_nvml):
    fake_nvml.add(FakeGpu(used_mib=512))
    fake_nvml.write("gpus/0/compute_mode", 3)
    fake_nvml.write("gpus/0/numa_cpus", 0b1101)
    (gpu,) = visible_gpus()
    assert (gpu.model, gpu.uuid, gpu.driver) == ("NVIDIA H200", fake_nvml.uuid(0), "580.95.05")
    assert (gpu.architecture, gpu.sms, gpu.memory_gib, gpu.used_bytes) == ("sm_90", 132, 140.4, 512 * 2**20)
    assert (gpu.compute_mode, gpu.mig, gpu.mig_pending) == ("exclusive process", False, False)
    assert gpu.pci == "00000000:10:00.0" and gpu.cpus == (0, 2, 3)
    assert driver() == ("580.95.05", (13, 0))


def test_what_nvml_does_not_tell_is_none_or_catalogued(fake_nvml):
    fake_nvml.add(FakeGpu("NVIDIA GeForce RTX 4090"))
    for fact in ("cores", "compute_mode", "pci"):
        (fake_nvml.root / "gpus/0" / fact).unlink()
    (gpu,) = visible_gpus()
    assert (gpu.mig, gpu.sms, gpu.compute_mode, gpu.pci, gpu.cpus) == (None, 128, "", "", ())


def test_a_gpu_in_mig_mode_tells_its_devices_and_has_the_memory_of_the_catalogue(fake_nvml):
    fake_nvml.add(FakeGpu(mig=("3g.71gb", "2g.35gb")))
    (gpu,) = visible_gpus()
    assert gpu.mig and gpu.memory_gib == 140.4 and gpu.used_bytes == 0
    assert [(device.profile, device.sms, device.memory_gib) for device in gpu.mig_devices] == [
        ("3g.71gb", 60, 69.8),
        ("2g.35gb", 32, 32.5),
    ]
    assert [device.uuid for device in gpu.mig_devices] == fake_nvml.mig_uuids(0)


def test_memory_in_use_in_mig_mode_is_that_of_its_gpu_instances(fake_nvml):
    fake_nvml.add(FakeGpu(mig=("3g.71gb", "2g.35gb")))
    for number, used in ((1, 100), (5, 30)):
        fake_nvml.write(f"gpus/0/gi/{number}/memory_used", used)
    fake_nvml.write("gpus/0/gi/1/ci/1/uuid", "MIG-another-part-of-the-first")
    (gpu,) = visible_gpus()
    assert len(gpu.mig_devices) == 3 and gpu.used_bytes == 130


def test_a_mig_device_that_was_chosen_is_a_gpu(fake_nvml, monkeypatch):
    fake_nvml.add(FakeGpu(A100), FakeGpu(mig=("3g.71gb", "2g.35gb")))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", fake_nvml.mig_uuids(1)[1])
    (gpu,) = visible_gpus()
    assert (gpu.uuid, gpu.parent) == (fake_nvml.mig_uuids(1)[1], fake_nvml.uuid(1))
    assert (gpu.model, gpu.sms, gpu.memory_gib) == ("NVIDIA H200 MIG 2g.35gb", 32, 32.5)
    assert (gpu.gpu_instance, gpu.compute_instance) == (5, 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"MIG-{fake_nvml.uuid(1)}/1/0")
    assert visible_gpus()[0].uuid == fake_nvml.mig_uuids(1)[0]


def test_the_node_lists_unlike_gpus_in_their_order(fake_nvml, monkeypatch):
    fake_nvml.add(FakeGpu(A100), FakeGpu(A100), FakeGpu(), FakeGpu(A100))
    models = [(part.model, part.count) for part in this_node().gpus]
    assert models == [(A100, 2), ("NVIDIA H200", 1), (A100, 1)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    h200, a100 = Gpus(model="NVIDIA H200", count=1, memory_gib=140.4), Gpus(model=A100, count=1, memory_gib=40.0)
    assert this_node().gpus == (h200, a100)


@pytest.mark.parametrize("chosen", ["", "-1"])
def test_whoever_wants_no_gpu_does_not_depend_on_the_driver(fake_nvml, monkeypatch, chosen):
    fake_nvml.add(FakeGpu())
    fake_nvml.fail("nvmlInitWithFlags", pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    with pytest.raises(MachineError, match="reboot, or reload its kernel module"):
        visible_gpus()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert this_node().num_gpus == 0


def test_without_a_driver_there_are_no_gpus(fake_nvml):
    (fake_nvml.root / "driver").unlink()
    assert visible_gpus() == [] and driver() is None and visible_gpus_report() == ((), "", None)


def test_gpus_that_others_have_been_given_do_not_count(fake_nvml, monkeypatch):
    fake_nvml.add(FakeGpu(A100), FakeGpu(), FakeGpu())
    fake_nvml.fail("nvmlDeviceGetHandleByIndex_v2", pynvml.NVML_ERROR_NO_PERMISSION, gpu=1)
    assert [gpu.number for gpu in visible_gpus()] == [0, 2]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [gpu.uuid for gpu in visible_gpus()] == [fake_nvml.uuid(2)]


@pytest.mark.parametrize("function", ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"])
def test_a_lost_gpu_is_an_error_if_it_was_chosen(fake_nvml, monkeypatch, function):
    fake_nvml.add(FakeGpu(A100), FakeGpu(), FakeGpu())
    fake_nvml.fail(function, pynvml.NVML_ERROR_GPU_IS_LOST, gpu=1)
    others = f"CUDA_VISIBLE_DEVICES={fake_nvml.uuid(0)},{fake_nvml.uuid(2)}"
    with pytest.raises(MachineError, match=f"GPU 1 does not answer .*lost.*leave it out: {others}"):
        this_node()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    assert [gpu.number for gpu in visible_gpus()] == [2, 0]


def test_a_gpu_named_twice_is_no_silent_empty_list(fake_nvml, monkeypatch):
    fake_nvml.add(FakeGpu())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,0")
    with pytest.raises(UsageError, match="twice"):
        this_node()


def test_nvml_that_breaks_half_way_is_an_error_for_users(fake_nvml):
    fake_nvml.add(FakeGpu())
    fake_nvml.fail("nvmlDeviceGetCount_v2", pynvml.NVML_ERROR_UNKNOWN)
    with pytest.raises(MachineError, match="nvidia-smi works, or train on cores"):
        visible_gpus()


def test_nvml_is_opened_once_for_a_question_and_closed(fake_nvml):
    fake_nvml.add(FakeGpu(A100), FakeGpu(mig=("3g.71gb",)))
    fake_nvml.log_calls()
    this_node()
    names = [call.split()[0] for call in fake_nvml.calls()]
    assert names.count("nvmlInitWithFlags") == names.count("nvmlShutdown") == 1 and names[-1] == "nvmlShutdown"
    with pytest.raises(ZeroDivisionError), nvml_open():
        1 / 0  # noqa: B018
    assert fake_nvml.calls()[-1] == "nvmlShutdown"
