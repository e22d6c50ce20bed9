"""The fake NVML library answers nvidia-ml-py, here and in other processes."""

import subprocess
import sys

import pynvml
import pytest

from tests.gmi.nvml.fake import MIB, FakeGpu

ASK = """
import pynvml
pynvml.nvmlInit()
names = [pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(pynvml.nvmlDeviceGetCount())]
print(", ".join(names))
"""


@pytest.fixture
def nvml(fake_nvml):
    """An H200 cut by MIG and an RTX 4090, with NVML open."""
    fake_nvml.add(FakeGpu(mig=("3g.71gb", "2g.35gb")), FakeGpu("NVIDIA GeForce RTX 4090", used_mib=300))
    pynvml.nvmlInit()
    yield fake_nvml
    pynvml.nvmlShutdown()


def gpu(index):
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def test_facts_of_gpus(nvml):
    assert pynvml.nvmlSystemGetDriverVersion() == "580.95.05" and pynvml.nvmlSystemGetCudaDriverVersion_v2() == 13000
    assert pynvml.nvmlDeviceGetCount() == 2
    assert pynvml.nvmlDeviceGetName(gpu(0)) == "NVIDIA H200" and pynvml.nvmlDeviceGetIndex(gpu(1)) == 1
    memory = pynvml.nvmlDeviceGetMemoryInfo(gpu(1))
    assert (memory.total, memory.used) == (24564 * MIB, 300 * MIB)
    assert pynvml.nvmlDeviceGetCudaComputeCapability(gpu(0)) == (9, 0)
    assert pynvml.nvmlDeviceGetNumGpuCores(gpu(0)) == 132 * 128
    assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByUUID(nvml.uuid(1))) == nvml.uuid(1)


def test_another_process_sees_the_same(fake_nvml):
    fake_nvml.add(FakeGpu("NVIDIA A30"), FakeGpu("NVIDIA L4"))
    told = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, timeout=120, check=True)
    assert told.stdout == "NVIDIA A30, NVIDIA L4\n"


def test_mig_devices_are_read(nvml):
    assert pynvml.nvmlDeviceGetMigMode(gpu(0)) == [1, 1] and pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu(0)) == 7
    devices = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(0), index) for index in range(2)]
    assert [pynvml.nvmlDeviceGetUUID(device) for device in devices] == nvml.mig_uuids(0)
    sms = {pynvml.nvmlDeviceGetName(d): pynvml.nvmlDeviceGetAttributes(d).multiprocessorCount for d in devices}
    assert sms == {"NVIDIA H200 MIG 3g.71gb": 60, "NVIDIA H200 MIG 2g.35gb": 32}
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(devices[1])) == 0
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(0), 2)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMigMode(gpu(1))


def test_memory_of_a_gpu_in_mig_mode_is_told_to_root_alone(nvml):
    with pytest.raises(pynvml.NVMLError_NoPermission):
        pynvml.nvmlDeviceGetMemoryInfo(gpu(0))
    nvml.write("root", "")
    assert pynvml.nvmlDeviceGetMemoryInfo(gpu(0)).total == 143771 * MIB


def test_links_tell_their_other_ends(fake_nvml):
    fake_nvml.add(*[FakeGpu("NVIDIA A100-SXM4-40GB")] * 3)
    fake_nvml.nvlink(0, 1)
    fake_nvml.nvswitch(2, lanes=1)
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetNvLinkState(gpu(0), 3) == 1
    other = pynvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu(0), 3)
    assert other.busId == pynvml.nvmlDeviceGetPciInfo(gpu(1)).busId and other.bus == 0x11
    assert pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(gpu(2), 0) == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetNvLinkState(gpu(2), 1)
    assert pynvml.nvmlDeviceGetTopologyCommonAncestor(gpu(0), gpu(1)) == pynvml.NVML_TOPOLOGY_NODE
    pynvml.nvmlShutdown()


def test_functions_fail_as_told(nvml):
    nvml.fail("nvmlDeviceGetName", pynvml.NVML_ERROR_UNKNOWN, times=1, skip=1)
    assert pynvml.nvmlDeviceGetName(gpu(0))
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetName(gpu(0))
    assert pynvml.nvmlDeviceGetName(gpu(0))
    nvml.fail("nvmlDeviceGetUUID", pynvml.NVML_ERROR_GPU_IS_LOST, gpu=1)
    assert pynvml.nvmlDeviceGetUUID(gpu(0))
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetUUID(gpu(1))


def test_calls_are_logged(nvml):
    nvml.log_calls()
    pynvml.nvmlDeviceGetName(gpu(1))
    assert nvml.calls() == ["nvmlDeviceGetHandleByIndex_v2 gpus/1", "nvmlDeviceGetName gpus/1"]


def test_without_a_driver_nvml_does_not_open(fake_nvml):
    (fake_nvml.root / "driver").unlink()
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        pynvml.nvmlInit()
