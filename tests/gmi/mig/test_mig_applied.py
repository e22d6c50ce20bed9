"""`--apply-mig`: instances are made for the time of a claim, and what was there comes back, whatever fails."""

import logging
import signal
import subprocess
import sys
import time
from contextlib import suppress
from threading import Timer

import psutil
import pynvml
import pytest

from gmi_drl.errors import LayoutMismatchError, MachineError, UsageError
from gmi_drl.gmi import claim, claimed
from gmi_drl.gmi.inventory import nvml_open
from gmi_drl.gmi.mig import busy, change, make, restore
from gmi_drl.gmi.mig.driver import MigDriver
from gmi_drl.gmi.mig.record import record_file
from gmi_drl.layout import GMI, Device, Layout
from tests.conftest import environment
from tests.gmi.mig.gpus_with_mig import claimed_by_another_process, folder_of
from tests.gmi.nvml.fake import FakeGpu

A100 = "NVIDIA A100-SXM4-40GB"
LAUNCHER = """
import os, sys
from gmi_drl.gmi import claimed
from gmi_drl.layout import Layout
layout = Layout.model_validate_json(sys.argv[1])
with claimed([layout], "a test", apply_mig=True) as claim, claim.cut(layout):
    if len(sys.argv) == 2 or os.fork():
        print("cut", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_claims(tmp_path, monkeypatch):
    monkeypatch.setenv("GMI_DRL_CLAIMS", str(tmp_path))
    monkeypatch.setattr(busy.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.setattr(make, "hides_processes", lambda: False)
    monkeypatch.setattr(change, "RETRY_S", 0.01)
    monkeypatch.setattr(make, "PATIENCE_S", 0.2)


@pytest.fixture
def machine(fake_nvml):
    fake_nvml.add(FakeGpu(A100, mig=("3g.20gb", "1g.5gb")))
    fake_nvml.write("root", "")
    return fake_nvml


def layout(*profiles, backend="mig", gpus=1):
    each = len(profiles)
    devices = tuple(
        Device(
            kind="gpu",
            index=gpu,
            gmis=tuple(GMI(id=gpu * each + i, num_env=1, cores=(0,), mig_profile=p) for i, p in enumerate(profiles)),
        )
        for gpu in range(gpus)
    )
    return Layout(backend=backend, share_cores=True, devices=devices)


def state(machine, gpu=0):
    with nvml_open():
        return MigDriver(machine.uuid(gpu)).state()


def cut(one):
    """What GMIs see meanwhile."""
    with claimed([one], "a test", apply_mig=True) as held, held.cut(one) as instances:
        return [instances.environment(gmi.id)["CUDA_VISIBLE_DEVICES"] for gmi in one.gmis]


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
    ],
    ids=["one", "two", "uneven", "parts", "uneven parts"],
)
def test_gmis_get_what_they_want_and_the_previous_instances_come_back(machine, one, profiles):
    before = state(machine)
    with claimed([one], "a test", apply_mig=True) as held, held.cut(one) as instances:
        uuids = [instances.environment(gmi.id)["CUDA_VISIBLE_DEVICES"] for gmi in one.gmis]
        assert profiles_of(machine, uuids) == profiles and len(set(uuids)) == len(uuids)
    assert state(machine).shapes == before.shapes and not record_file(machine.uuid(0)).exists()


def test_what_serves_already_is_kept_and_told_is_what_goes(machine, caplog):
    before = state(machine)
    with caplog.at_level(logging.WARNING):
        (kept,) = cut(layout("3g.20gb"))
    assert kept in before.instances[0].uuids and state(machine) == before and not caplog.records
    with caplog.at_level(logging.WARNING):
        cut(layout(None))
    assert all(uuid in caplog.text for one in before.instances for uuid in one.uuids) and "that go" in caplog.text


def test_mig_mode_goes_on_and_off_again_on_all_gpus(fake_nvml):
    fake_nvml.add(FakeGpu(), FakeGpu(A100))
    fake_nvml.write("root", "")
    one = layout(None, None, gpus=2)
    with claimed([one], "a test", apply_mig=True) as held, held.cut(one):
        assert [len(state(fake_nvml, gpu).instances) for gpu in range(2)] == [2, 2]
    assert not state(fake_nvml, 0).enabled and not state(fake_nvml, 1).enabled


MADE = ["nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance"]
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


def test_both_failures_are_told(machine, monkeypatch):
    machine.fail("nvmlDeviceCreateGpuInstanceWithPlacement", pynvml.NVML_ERROR_NO_PERMISSION)
    with pytest.raises(MachineError, match=r"^making 7g.40gb at 0 .* besides, GPU-\S+ has not got back"):
        cut(layout(None))


def test_what_has_no_room_is_refused_before_anything_is_changed(machine):
    machine.log_calls()
    with pytest.raises(LayoutMismatchError, match="has no room for as many MIG instances"):
        cut(layout(*[None] * 8))
    with pytest.raises(LayoutMismatchError, match=r"2 x 4g.20gb do not fit"):
        cut(layout("4g.20gb", "4g.20gb"))
    with pytest.raises(LayoutMismatchError, match="room for 7 compute instances"):
        cut(layout(*[None] * 8, backend="mig-ci"))
    assert not any("Create" in call or "Destroy" in call for call in machine.calls())


def test_an_ordinary_user_is_told_what_it_needs_and_nothing_changes(machine):
    before = state(machine)
    (machine.root / "root").unlink()
    with pytest.raises(MachineError, match=r"it needs root"):
        cut(layout(None))
    machine.write("root", "")
    assert state(machine) == before


def test_a_mode_that_needs_a_reset_is_not_forced(fake_nvml):
    fake_nvml.add(FakeGpu(A100))
    fake_nvml.write("root", "")
    fake_nvml.write("gpus/0/mig_resets", "")
    with pytest.raises(MachineError, match=r"must be reset .* by hand: nvidia-smi -i GPU-\S+ -mig 1, then nvidia-smi"):
        cut(layout(None))
    assert not state(fake_nvml).pending
    fake_nvml.write("gpus/0/mig_pending", 1)
    with pytest.raises(LayoutMismatchError, match="waits for a reset that turns MIG mode on"):
        cut(layout(None))


def test_what_is_in_use_is_refused_before_anything_is_destroyed(machine):
    before = state(machine)
    machine.log_calls()
    for one in before.instances:
        (uuid,) = one.uuids
        processes = folder_of(machine, uuid) / "processes"
        processes.mkdir()
        (processes / "4321").write_text("1")
        with pytest.raises(LayoutMismatchError, match=r"is in use by process 4321: wait for it"):
            cut(layout(None))
        (processes / "4321").unlink()
    assert not any("Destroy" in call for call in machine.calls()) and state(machine) == before


def test_processes_of_a_run_that_has_just_ended_are_waited_for(machine, monkeypatch):
    monkeypatch.setattr(make, "PATIENCE_S", 60.0)
    (uuid,) = state(machine).instances[0].uuids
    processes = folder_of(machine, uuid) / "processes"
    processes.mkdir()
    (processes / "4321").write_text("1")
    ending = Timer(0.5, (processes / "4321").unlink)
    ending.start()
    assert cut(layout(None))
    ending.join()


def test_a_gpu_in_use_keeps_its_mode(fake_nvml):
    fake_nvml.add(FakeGpu(A100))
    fake_nvml.write("root", "")
    fake_nvml.write("gpus/0/processes/4321", 1)
    with pytest.raises(LayoutMismatchError, match=r"in use by process 4321, and MIG mode is off"):
        cut(layout(None))
    assert not state(fake_nvml).enabled


def test_where_processes_are_hidden_nothing_of_others_is_destroyed(machine, monkeypatch):
    monkeypatch.setattr(make, "hides_processes", lambda: True)
    before = state(machine)
    with pytest.raises(MachineError, match="in this container NVML does not tell"):
        cut(layout(None))
    assert state(machine) == before


def test_what_other_users_have_claimed_counts_as_in_use(machine, tmp_path):
    """Their locks lie in folders of their own, which root can look into."""
    before = state(machine)
    (uuid,) = before.instances[0].uuids
    theirs = tmp_path / "tmp" / "gmi-drl-claims-4711"
    theirs.mkdir(parents=True, mode=0o700)
    with (
        claimed_by_another_process(f"gpu-{uuid}", theirs),
        pytest.raises(LayoutMismatchError, match=r"in use by a run that has claimed it in .*gmi-drl-claims-4711"),
    ):
        cut(layout(None))
    assert state(machine) == before and cut(layout(None))


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


def test_when_the_launcher_is_killed_the_keeper_restores_before_others_get_the_gpu(machine):
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
