"""The fake NVML library makes and destroys MIG instances, and refuses what the real one refuses."""

from contextlib import contextmanager
from ctypes import byref

import pynvml
import pytest

from tests.gmi.nvml.fake import FakeGpu


@pytest.fixture
def a100(fake_nvml):
    fake_nvml.add(FakeGpu("NVIDIA A100-SXM4-40GB", mig=()))
    fake_nvml.write("root", "")
    pynvml.nvmlInit()
    yield pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlShutdown()


def ids(device):
    """Ids of profiles by name."""
    found = {}
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = pynvml.nvmlDeviceGetGpuInstanceProfileInfoV(device, number)
        except pynvml.NVMLError_NotSupported:
            continue
        found[info.name.removeprefix("MIG ")] = info.id
    return found


def make(device, name, start):
    size = {"1g.5gb": 1, "2g.10gb": 2, "3g.20gb": 4, "7g.40gb": 8}[name]
    place = pynvml.c_nvmlGpuInstancePlacement_t(start=start, size=size)
    return pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, ids(device)[name], byref(place))


@contextmanager
def refused(error):
    with pytest.raises(error):
        yield


def test_instances_are_made_where_there_is_room(a100):
    first = make(a100, "3g.20gb", 4)
    info = pynvml.nvmlGpuInstanceGetInfo(first)
    assert (info.id, info.placement.start, info.placement.size) == (2, 4, 4) and info.profileId == ids(a100)["3g.20gb"]
    with refused(pynvml.NVMLError_InsufficientResources):
        make(a100, "1g.5gb", 5)
    with refused(pynvml.NVMLError_InvalidArgument):
        make(a100, "2g.10gb", 1)
    assert pynvml.nvmlGpuInstanceGetInfo(make(a100, "2g.10gb", 2)).id == 4


def test_compute_instances_are_mig_devices_with_uuids_of_their_own(a100):
    instance = make(a100, "3g.20gb", 0)
    with refused(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(a100, 0)
    one = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 1)
    other = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
    assert pynvml.nvmlComputeInstanceGetInfo(other).placement.start == 2
    with refused(pynvml.NVMLError_InsufficientResources):
        pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 2)
    devices = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(a100, index) for index in range(2)]
    uuids = {pynvml.nvmlDeviceGetUUID(device) for device in devices}
    assert len(uuids) == 2 and pynvml.nvmlDeviceGetName(devices[0]).endswith("MIG 2c.3g.20gb")
    with refused(pynvml.NVMLError_InUse):
        pynvml.nvmlGpuInstanceDestroy(instance)
    for part in (one, other):
        pynvml.nvmlComputeInstanceDestroy(part)
    pynvml.nvmlGpuInstanceDestroy(instance)
    again = make(a100, "3g.20gb", 0)
    pynvml.nvmlGpuInstanceCreateComputeInstance(again, 2)
    device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(a100, 0)
    assert pynvml.nvmlDeviceGetUUID(device) in uuids, "by the place, whatever is made there"


def test_what_is_in_use_is_not_destroyed(a100, fake_nvml):
    part = pynvml.nvmlGpuInstanceCreateComputeInstance(make(a100, "7g.40gb", 0), 4)
    fake_nvml.write("gpus/0/gi/0/ci/0/processes/4321", 100)
    with refused(pynvml.NVMLError_InUse):
        pynvml.nvmlComputeInstanceDestroy(part)
    device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(a100, 0)
    assert [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(device)] == [4321]


def test_only_root_may_change_anything_or_see_gpu_instances(a100, fake_nvml):
    (fake_nvml.root / "root").unlink()
    with refused(pynvml.NVMLError_NoPermission):
        make(a100, "1g.5gb", 0)
    with refused(pynvml.NVMLError_NoPermission):
        pynvml.nvmlDeviceSetMigMode(a100, 0)
    with refused(pynvml.NVMLError_NoPermission):
        pynvml.nvmlDeviceGetGpuInstanceById(a100, 0)


def test_the_mode_changes_at_once_or_after_a_reset_and_never_under_instances(a100, fake_nvml):
    assert pynvml.nvmlDeviceSetMigMode(a100, 0) == 0 and pynvml.nvmlDeviceGetMigMode(a100) == [0, 0]
    fake_nvml.write("gpus/0/mig_resets", "")
    assert pynvml.nvmlDeviceSetMigMode(a100, 1) == pynvml.NVML_ERROR_RESET_REQUIRED
    assert pynvml.nvmlDeviceGetMigMode(a100) == [0, 1]
    fake_nvml.write("gpus/0/mig_mode", 1)
    make(a100, "1g.5gb", 0)
    assert pynvml.nvmlDeviceSetMigMode(a100, 0) == pynvml.NVML_ERROR_IN_USE
