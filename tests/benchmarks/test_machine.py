import subprocess
import sys
import time

import pynvml

from gmi_drl.benchmarks.machine import Watch, commit
from gmi_drl.gmi import allowed_cores
from tests.benchmarks.toy import toy_machine
from tests.gmi.nvml.fake import FakeGpu

BURN = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"


def test_the_machine_is_described():
    machine = Watch().machine()
    assert machine.cores == len(allowed_cores()) and machine.cpu and machine.memory_bytes > 2**20
    assert 0 <= machine.busy <= 1 and machine.versions["torch"] and len(machine.load_after) == 3
    assert machine.torch in machine.described


def test_a_driver_that_fails_loses_no_result(fake_nvml):
    fake_nvml.add(FakeGpu())
    watch = Watch()
    assert watch.machine().gpus == ("NVIDIA H200 (driver 580.95.05)",)
    fake_nvml.fail("nvmlDeviceGetName", pynvml.NVML_ERROR_GPU_IS_LOST)
    (gpu,) = watch.machine().gpus
    assert gpu.startswith("unknown: GPU 0 does not answer")


def test_the_load_of_other_processes_is_measured_alone(monkeypatch):
    """To another Watch, whose own time is that of this test alone, a child is another process."""
    monkeypatch.setattr("gmi_drl.gmi.inventory.core_load.own_s", time.process_time)
    watch = Watch()
    subprocess.run([sys.executable, "-c", BURN], check=True, timeout=60)
    machine = watch.machine()
    assert machine.busy > 0


def test_a_quiet_machine_is_not_warned_about():
    assert toy_machine(busy=0.01).warning is None
    assert "took 20% of the cores" in toy_machine(busy=0.2).warning


def test_outside_its_repository_there_is_no_commit(monkeypatch, tmp_path):
    assert commit().removesuffix("-dirty").isalnum()
    monkeypatch.setattr("gmi_drl.benchmarks.machine.PACKAGE", tmp_path)
    assert commit() == ""
