"""A thread that reads meters, whatever NVML does."""

import threading
import time

import pynvml

from gmi_drl.gmi.utilisation import Sampler, sampler, watched_gpus
from gmi_drl.gmi.utilisation.readings import Reading, mean
from gmi_drl.layout.layout import GMI, Device, Layout
from tests.gmi.nvml.fake import FakeGpu

DEADLINE_S = 60.0


def until(tells):
    end = time.monotonic() + DEADLINE_S
    while not tells():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_means_are_weighted_by_time_and_by_who_tells():
    readings = [Reading(0, 1, {"gpu0": {"sm_util": 10.0, "power_w": 100.0}}), Reading(1, 4, {"gpu0": {"sm_util": 50}})]
    assert mean(readings) == {"gpu0": {"sm_util": 40.0, "power_w": 100.0}}
    assert mean([]) == {} and mean([Reading(0, 1, {"gpu0": {}})]) == {}


def test_a_time_has_the_readings_that_began_in_it():
    watch = Sampler({})
    for start, value in ((0, 1.0), (1, 2.0), (2, 4.0), (3, 8.0)):
        watch._keep(Reading(start, start + 1, {"gpu0": {"sm_util": value}}))
    assert watch.mean(0.5, 3) == {"gpu0": {"sm_util": 3.0}} and watch.mean(9, 10) == {}
    watch.forget(2)
    assert watch.mean(0, 9) == {"gpu0": {"sm_util": 6.0}}


def test_many_readings_become_fewer_with_the_same_mean(monkeypatch):
    monkeypatch.setattr(sampler, "MOST", 4)
    watch = Sampler({})
    for start in range(5):
        watch._keep(Reading(start, start + 1, {"gpu0": {"sm_util": float(start)}}))
    assert len(watch._readings) == 3 and watch.mean(0, 9) == {"gpu0": {"sm_util": 2.0}}


def test_gpus_are_watched_until_the_end_and_trouble_ends_nothing(fake_nvml):
    fake_nvml.add(FakeGpu())
    fake_nvml.write("gpus/0/sm_util", 40)
    began = time.monotonic()
    with Sampler({fake_nvml.uuid(0): 3}) as watch:
        until(lambda: watch.mean(began, time.monotonic()).get("gpu3", {}).get("sm_util"))
        for function in ("nvmlGpmSampleGet", "nvmlDeviceGetTotalEnergyConsumption"):
            fake_nvml.fail(function, pynvml.NVML_ERROR_GPU_IS_LOST)
        count = len(watch._readings)
        until(lambda: len(watch._readings) > count + 1)
        (fake_nvml.root / "fail/nvmlGpmSampleGet").unlink()
        lost = time.monotonic()
        until(lambda: watch.mean(lost, time.monotonic()).get("gpu3", {}).get("sm_util"))
    assert not [thread for thread in threading.enumerate() if thread.name == "utilisation"]
    assert watch.mean(began, time.monotonic())["gpu3"]["sm_util"] == 40  # what was read is still known


def test_no_gpus_cost_no_thread_and_no_nvml(fake_nvml):
    fake_nvml.log_calls()
    with Sampler({}) as watch:
        assert watch._thread is None
    assert fake_nvml.calls() == []


def test_without_nvml_nothing_is_told(fake_nvml):
    (fake_nvml.root / "driver").unlink()
    with Sampler({"GPU-x": 0}) as watch:
        watch._thread.join(DEADLINE_S)
        assert not watch._thread.is_alive() and watch.mean(0, time.monotonic()) == {}


def test_a_layout_tells_what_its_processes_see():
    gmis = [GMI(id=number, num_env=1, cores=(number,)) for number in range(3)]
    layout = Layout(
        devices=(Device(kind="gpu", index=2, gmis=tuple(gmis[:2])), Device(kind="cpu", gmis=(gmis[2],))),
        groups={},
    )
    seen = {0: "MIG-a", 1: "MIG-b", 2: ""}
    assert watched_gpus(layout, lambda gmi: {"CUDA_VISIBLE_DEVICES": seen[gmi]}) == {"MIG-a": 2, "MIG-b": 2}


def test_a_meter_that_breaks_is_told_of(fake_nvml, monkeypatch, caplog):
    fake_nvml.add(FakeGpu())

    def broken(watched, life):
        raise ValueError("no such sample")

    monkeypatch.setattr("gmi_drl.gmi.utilisation.meters.meters_of", broken)
    with Sampler({fake_nvml.uuid(0): 0}):
        until(lambda: caplog.records)
    assert "the utilisation of the GPUs is no longer read: ValueError: no such sample" in caplog.text
