"""What NVML tells of GPUs, by the real nvidia-ml-py over the fake library."""

import time
from contextlib import ExitStack

import pynvml
import pytest

from gmi_drl.gmi.utilisation.meters import EnergyMeter, meters_of
from tests.gmi.nvml.fake import FakeGpu

REFRESH_S = 0.11


@pytest.fixture
def life(fake_nvml):
    with ExitStack() as stack:
        pynvml.nvmlInit()
        stack.callback(pynvml.nvmlShutdown)
        yield stack


def told(watched, life):
    meters = meters_of(watched, life)
    time.sleep(REFRESH_S)
    usage = {}
    for device, meter in meters:
        usage.setdefault(device, {}).update(meter())
    return usage


def test_hopper_tells_sms_occupancy_memory_and_power(fake_nvml, life):
    fake_nvml.add(FakeGpu(), FakeGpu())
    for name, value in (("sm_util", 41.5), ("sm_occupancy", 20), ("dram_bandwidth", 8), ("power_mw", 310_000)):
        fake_nvml.write(f"gpus/1/{name}", value)
    fake_nvml.log_calls()
    usage = told({fake_nvml.uuid(1): 0}, life)
    assert usage.keys() == {"gpu0"} and usage["gpu0"].pop("power_w") > 0
    assert usage["gpu0"] == {"sm_util": 41.5, "sm_occupancy": 20, "dram_bandwidth": 8}
    life.close()
    calls = fake_nvml.calls()
    assert calls.count("nvmlGpmSampleFree") == calls.count("nvmlGpmSampleAlloc") == 2 and calls[-1] == "nvmlShutdown"


def test_power_is_the_energy_of_a_second(fake_nvml, life):
    fake_nvml.add(FakeGpu())
    fake_nvml.write("gpus/0/power_mw", 310_000)
    meter = EnergyMeter(pynvml.nvmlDeviceGetHandleByIndex(0))
    deadline = time.monotonic() + 60
    while meter().get("power_w") != pytest.approx(310, abs=5):  # another process may run between energy and clock
        assert time.monotonic() < deadline
        time.sleep(REFRESH_S)


def test_before_hopper_it_is_the_time_any_kernel_ran(fake_nvml, life):
    fake_nvml.add(FakeGpu("NVIDIA A100-SXM4-40GB"))
    fake_nvml.write("gpus/0/utilization_gpu", 97)
    usage = told({fake_nvml.uuid(0): 0}, life)
    assert set(usage["gpu0"]) == {"gpu_busy", "power_w"} and usage["gpu0"]["gpu_busy"] == 97


def test_who_may_not_see_the_counters_is_told_what_all_may_see(fake_nvml, life):
    fake_nvml.add(FakeGpu())
    fake_nvml.fail("nvmlGpmSampleGet", pynvml.NVML_ERROR_NO_PERMISSION)
    fake_nvml.fail("nvmlDeviceGetTotalEnergyConsumption", pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert told({fake_nvml.uuid(0): 0}, life) == {"gpu0": {"gpu_busy": 0.0, "power_w": 100.0}}


def test_instances_of_mig_have_counters_of_their_own_and_the_gpu_its_power(fake_nvml, life):
    fake_nvml.add(FakeGpu(mig=("3g.71gb", "2g.35gb")))
    for instance, value in ((1, 60), (5, 30)):
        fake_nvml.write(f"gpus/0/gi/{instance}/sm_util", value)
    usage = told(dict.fromkeys(fake_nvml.mig_uuids(0), 0), life)
    assert usage.keys() == {"gpu0", "gpu0/gi1", "gpu0/gi5"} and set(usage["gpu0"]) == {"power_w"}
    assert [usage[f"gpu0/gi{instance}"]["sm_util"] for instance in (1, 5)] == [60, 30]


def test_compute_instances_of_one_gpu_instance_are_one_device(fake_nvml, life):
    fake_nvml.add(FakeGpu(mig=("7g.141gb",)))
    fake_nvml.write("gpus/0/gi/0/ci/1/uuid", "MIG-second")
    devices = [device for device, _ in meters_of({fake_nvml.mig_uuids(0)[0]: 0, "MIG-second": 0}, life)]
    assert sorted(devices) == ["gpu0", "gpu0/gi0"]


def test_mig_before_hopper_tells_power_alone(fake_nvml, life):
    fake_nvml.add(FakeGpu("NVIDIA A100-SXM4-40GB", mig=("3g.20gb",)))
    assert set(told(dict.fromkeys(fake_nvml.mig_uuids(0), 0), life)["gpu0"]) == {"power_w"}


def test_a_sample_that_fails_is_not_compared_with(fake_nvml, life):
    fake_nvml.add(FakeGpu())
    meter = next(meter for _, meter in meters_of({fake_nvml.uuid(0): 0}, life))
    fake_nvml.fail("nvmlGpmSampleGet", pynvml.NVML_ERROR_UNKNOWN, times=1)
    with pytest.raises(pynvml.NVMLError_Unknown):
        meter()
    assert meter() == {}
    time.sleep(REFRESH_S)
    assert meter().keys() == {"sm_util", "sm_occupancy", "dram_bandwidth"}


def test_a_gpu_that_is_not_there_has_no_meters(fake_nvml, life):
    fake_nvml.add(FakeGpu())
    assert meters_of({"GPU-none": 0}, life) == []
