"""`--apply-mig`: instances are made for the time of a claim, and what was there comes back, whatever fails."""

import logging
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pynvml
import pytest

from gmi_drl.errors import GmiWarning, LayoutMismatchError, MachineError, UsageError
from gmi_drl.gmi import claim, claimed
from gmi_drl.gmi.inventory import nvml_open
from gmi_drl.gmi.mig.apply import restore
from gmi_drl.gmi.mig.apply.record import record_file
from gmi_drl.gmi.mig.driver import MigDriver
from tests.conftest import environment
from tests.gmi.mig.cut_by_mig import A100, cut, cut_a100, keep_to_itself, layout, state
from tests.gmi.mig.gpus_with_mig import folder_of
from tests.gmi.nvml.fake import FakeGpu

LAUNCHER = """
import os, sys
from gmi_drl.gmi import claimed
from gmi_drl.layout.layout import Layout
layout = Layout.model_validate_json(sys.argv[1])
with claimed([layout], "a test", apply_mig=True) as claim, claim.cut(layout):
    if len(sys.argv) == 2 or os.fork():
        print("cut", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_claims(tmp_path, monkeypatch):
    keep_to_itself(tmp_path, monkeypatch)


@pytest.fixture
def machine(fake_nvml):
    return cut_a100(fake_nvml)


def profiles_of(machine, uuids):
    return [(folder_of(machine, uuid) / "name").read_text().strip() for uuid in uuids]


@pytest.mark.parametrize(
    ("one", "profiles"),
    [
        (layout(None), ["7g.40gb"]),
        (layout(None, None), ["3g.20gb"] * 2),
        (layout("4g.20gb", "1g.5gb", "2g.10gb"), ["4g.20gb", "1g.5gb", "2g.10gb"]),
        (layout(None, None, backend="mig-ci"), ["3c.7g.40gb"] * 2),
        (layout("1c.3g.20gb", "2c.3g.20gb", backend="mig-ci"), ["1c.3g.20gb", "2c.3g.20gb"]),
        (layout("3c.7g.40gb", "2c.7g.40gb", "2c.7g.40gb", backend="mig-ci"), ["3c.7g.40gb", *["2c.7g.40gb"] * 2]),
    ],
    ids=["one", "two", "uneven", "parts", "uneven parts", "parts that fit in one way only"],
)
def test_gmis_get_what_they_want_and_the_previous_instances_come_back(machine, one, profiles):
    before = state(machine)
    with claimed([one], "a test", apply_mig=True) as held, held.cut(one) as instances:
        uuids = [instances.environment(gmi.id)["CUDA_VISIBLE_DEVICES"] for gmi in one.gmis]
        assert profiles_of(machine, uuids) == profiles and len(set(uuids)) == len(uuids)
    assert state(machine).shapes == before.shapes and not record_file(machine.uuid(0)).exists()


def test_a_watchdog_that_cannot_be_started_leaves_gpus_as_they_were_and_free(machine, monkeypatch):
    before, one = state(machine), layout(None)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/nowhere/python")
        with (
            pytest.raises(MachineError, match=r"^/nowhere/python cannot be started as a watchdog"),
            claimed([one], "a test", apply_mig=True),
        ):
            pass
    assert state(machine) == before and not record_file(machine.uuid(0)).exists()
    with claimed([one], "a test", apply_mig=True):
        pass


def test_compute_instances_that_lie_in_the_way_go_and_come_back(fake_nvml):
    fake_nvml.add(FakeGpu(A100, mig=()))
    fake_nvml.write("root", "")
    driver = MigDriver(fake_nvml.uuid(0))
    with nvml_open():
        driver.make_part(driver.make("7g.40gb", 0), "1c.7g.40gb", 0)
    before = state(fake_nvml)
    assert cut(layout("4c.7g.40gb", "1c.7g.40gb", backend="mig-ci")) and state(fake_nvml) == before


def test_existing_wanted_instances_stay_and_destroyed_ones_are_reported(machine, caplog):
    before = state(machine)
    with caplog.at_level(logging.WARNING):
        (kept,) = cut(layout("3g.20gb"))
    assert kept in before.instances[0].uuids and state(machine) == before and not caplog.records
    with caplog.at_level(logging.WARNING):
        cut(layout(None))
    assert (
        all(uuid in caplog.text for one in before.instances for uuid in one.uuids)
        and "destroying MIG devices" in caplog.text
    )


def test_mig_mode_goes_on_and_off_again_on_all_gpus(fake_nvml):
    fake_nvml.add(FakeGpu(), FakeGpu(A100))
    fake_nvml.write("root", "")
    one = layout(None, None, gpus=2)
    with claimed([one], "a test", apply_mig=True) as held, held.cut(one):
        assert [len(state(fake_nvml, gpu).instances) for gpu in range(2)] == [2, 2]
    assert not state(fake_nvml, 0).enabled and not state(fake_nvml, 1).enabled


MADE = ["nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstanceWithPlacement"]
DESTROYED = ["nvmlGpuInstanceDestroy", "nvmlComputeInstanceDestroy"]
CUT = ("3g.20gb", "2g.10gb", "1g.5gb")
CALLS = [
    (None, "nvmlDeviceSetMigMode", 0),
    *((mig, function, skip) for mig in (None, CUT) for function in MADE for skip in range(2)),
    *((CUT, function, skip) for function in DESTROYED for skip in range(3)),
]


@pytest.mark.parametrize(("mig", "function", "skip"), CALLS)
def test_a_failure_half_way_leaves_what_was_there(fake_nvml, mig, function, skip):
    """Of every call that changes anything, the first and later ones; MIG mode was off, or there were instances."""
    fake_nvml.add(FakeGpu(A100, mig=mig))
    fake_nvml.write("root", "")
    before = state(fake_nvml)
    fake_nvml.fail(function, pynvml.NVML_ERROR_NO_PERMISSION, times=1, skip=skip)
    with pytest.raises(MachineError, match=r"needs root"):
        cut(layout(None) if function in DESTROYED else layout(*["2g.10gb"] * 3))
    assert (fake_nvml.root / "fail" / function).read_text().split()[1:] == ["0", "0"], "the fault was met"
    after = state(fake_nvml)
    assert (after.shapes, after.enabled, after.pending) == (before.shapes, before.enabled, before.pending)


def test_both_failures_are_told(machine):
    machine.fail("nvmlDeviceCreateGpuInstanceWithPlacement", pynvml.NVML_ERROR_NO_PERMISSION)
    with (
        pytest.warns(GmiWarning, match=r"^GPU-\S+ has not got back .*by hand:\n  nvidia-smi mig"),
        pytest.raises(MachineError, match=r"^making 7g.40gb at 0"),
    ):
        cut(layout(None))


@pytest.mark.parametrize("error", [LayoutMismatchError("GMI 0 has ended"), KeyboardInterrupt()])
def test_a_run_that_fails_tells_besides_what_could_not_be_restored(machine, error):
    one = layout(None)
    with (
        pytest.warns(GmiWarning, match="has not got back"),
        pytest.raises(type(error)) as seen,
        claimed([one], "a test", apply_mig=True) as held,
        held.cut(one),
    ):
        machine.fail("nvmlGpuInstanceDestroy", pynvml.NVML_ERROR_NO_PERMISSION)
        raise error
    assert seen.value is error


def test_claims_in_a_relative_folder_are_those_of_the_watchdog_too(machine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GMI_DRL_CLAIMS", "locks")
    before = state(machine)
    assert cut(layout(None)) and state(machine) == before
    assert not record_file(machine.uuid(0)).exists() and record_file("x").parent == tmp_path / "locks"


def test_a_record_that_vanishes_changes_nothing(machine):
    before = state(machine)
    one = layout(None)
    with claimed([one], "a test", apply_mig=True) as held, held.cut(one):
        record_file(machine.uuid(0)).unlink()
    assert state(machine).shapes == before.shapes


def test_what_cannot_be_restored_is_an_error_with_commands(machine, monkeypatch):
    monkeypatch.setattr(restore, "PATIENCE_S", 0.1)
    one = layout(None)
    with (
        pytest.raises(MachineError, match=r"has not got back the MIG instances .*by hand:\n  nvidia-smi mig"),
        claimed([one], "a test", apply_mig=True) as held,
        held.cut(one),
    ):
        machine.fail("nvmlGpuInstanceDestroy", pynvml.NVML_ERROR_NO_PERMISSION)
    (machine.root / "fail/nvmlGpuInstanceDestroy").unlink()
    assert cut(layout("3g.20gb")), "the next run restores it first"
    assert {shape.profile for shape in state(machine).shapes} == {"3g.20gb", "1g.5gb"}


def killed(one, *more, while_dead):
    """Kill the launcher of a layout that is cut, and try something until it is true."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", LAUNCHER, one.model_dump_json(), *more]
    with subprocess.Popen(command, env=environment(), **pipes) as launcher:
        assert launcher.stdout.readline() == "cut\n"
        children = psutil.Process(launcher.pid).children(recursive=True)
        launcher.send_signal(signal.SIGKILL)
        launcher.wait()
        deadline = time.monotonic() + 60
        while not while_dead():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        launcher.stdin.close()
    psutil.wait_procs(children, timeout=60)


def test_when_the_launcher_is_killed_the_watchdog_restores_before_others_get_the_gpu(machine):
    before = state(machine)

    def is_free():
        with suppress(LayoutMismatchError), claim([f"gpu-{machine.uuid(0)}"], "b"):
            return True

    killed(layout(None, None), while_dead=is_free)
    assert state(machine).shapes == before.shapes and not record_file(machine.uuid(0)).exists()


def test_a_fork_of_the_launcher_that_lives_on_keeps_nothing(machine):
    before = state(machine).shapes
    killed(layout(None, None), "fork", while_dead=lambda: not record_file(machine.uuid(0)).exists())
    assert state(machine).shapes == before


def test_a_second_gpu_that_fails_leaves_both_as_they_were(fake_nvml):
    fake_nvml.add(FakeGpu(A100, mig=("3g.20gb",)), FakeGpu(A100))
    fake_nvml.write("root", "")
    before = [state(fake_nvml, gpu) for gpu in range(2)]
    fake_nvml.fail("nvmlDeviceSetMigMode", pynvml.NVML_ERROR_IN_USE, times=1, gpu=1)
    with pytest.raises(MachineError, match="perhaps a monitor such as dcgm"):
        cut(layout(None, None, gpus=2))
    assert [state(fake_nvml, gpu) for gpu in range(2)] == before


def test_when_launcher_and_watchdog_are_killed_the_next_run_restores_first(machine):
    before = state(machine)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", LAUNCHER, layout(None, None).model_dump_json()]
    with subprocess.Popen(command, env=environment(), **pipes) as launcher:
        assert launcher.stdout.readline() == "cut\n"
        watchdogs = psutil.Process(launcher.pid).children()
        for process in (*watchdogs, psutil.Process(launcher.pid)):
            process.suspend()
        for process in (*watchdogs, launcher):
            process.kill()
    psutil.wait_procs(watchdogs, timeout=60)
    assert state(machine).shapes != before.shapes and record_file(machine.uuid(0)).exists()
    assert cut(layout("3g.20gb")) and state(machine) == before and not record_file(machine.uuid(0)).exists()


def test_an_instance_of_the_variable_is_not_to_be_changed(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", machine.mig_uuids(0)[0])
    with pytest.raises(LayoutMismatchError, match="its GPU may not be changed"):
        cut(layout(None))


def test_other_backends_have_nothing_to_apply():
    with pytest.raises(UsageError, match="--apply-mig is for layouts cut by mig or mig-ci, this one is cut by"):
        cut(layout(None, backend="process"))


def test_the_gpu_is_ours_alone(machine):
    whole = f"gpu-{machine.uuid(0)}"
    with claimed([layout(None)], "a", apply_mig=True), pytest.raises(LayoutMismatchError), claim([whole], "b"):
        pass
