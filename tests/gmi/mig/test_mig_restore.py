"""A GPU becomes what it was, and nothing that others made goes."""

import time
from threading import Timer

import pynvml
import pytest

from gmi_drl.cli.doctor import gpus
from gmi_drl.errors import MachineError
from gmi_drl.gmi.inventory import nvml_open
from gmi_drl.gmi.mig.apply import restore as restoring
from gmi_drl.gmi.mig.apply.record import Record, boot_id, read_record, record_file, write_record
from gmi_drl.gmi.mig.apply.restore import left_behind, restore
from gmi_drl.gmi.mig.driver import MigDriver
from gmi_drl.gmi.mig.state import MigState
from gmi_drl.layout.backends import MIG
from tests.gmi.mig.cut_by_mig import cut_a100, keep_to_itself
from tests.gmi.mig.gpus_with_mig import claimed_by_another_process
from tests.gmi.nvml.fake import FakeGpu


@pytest.fixture(autouse=True)
def own_claims(tmp_path, monkeypatch):
    keep_to_itself(tmp_path, monkeypatch)


@pytest.fixture
def machine(fake_nvml):
    return cut_a100(fake_nvml)


def now(machine):
    with nvml_open():
        return MigDriver(machine.uuid(0)).state()


def cut_anew(machine, *wanted):
    """As a run does: destroy what is there and make others, with a record of it."""
    driver = MigDriver(machine.uuid(0))
    with nvml_open():
        before = driver.state()
        record = Record(boot_id(), before).about_to_make(list(wanted))
        write_record(record)
        for instance in before.instances:
            for part in instance.compute:
                driver.destroy_part(instance.id, part.id)
            driver.destroy(instance.id)
        for profile, start in wanted:
            driver.make_part(driver.make(profile, start), profile, 0)
        return record, driver.state()


def sealed(record, state):
    return Record(record.boot, record.before, record.places, state)


@pytest.mark.parametrize("seal", [True, False], ids=["sealed", "killed before the last note"])
def test_the_previous_instances_come_back(machine, seal):
    record, made = cut_anew(machine, ("7g.40gb", 0))
    assert restore(sealed(record, made) if seal else record) == []
    assert now(machine).shapes == record.before.shapes and not record_file(machine.uuid(0)).exists()
    assert restore(record) == [], "once more changes nothing"


def test_mig_mode_goes_off_again_where_it_was_off(fake_nvml):
    fake_nvml.add(FakeGpu("NVIDIA A30"))
    fake_nvml.write("root", "")
    driver = MigDriver(fake_nvml.uuid(0))
    with nvml_open():
        record = Record(boot_id(), driver.state()).about_to_make([("4g.24gb", 0)])
        driver.set_mode(enabled=True)
        driver.make_part(driver.make("4g.24gb", 0), "4g.24gb", 0)
    assert restore(record) == []
    assert not now(fake_nvml).enabled


def test_a_mode_that_only_waits_for_a_reset_is_taken_back(fake_nvml):
    fake_nvml.add(FakeGpu("NVIDIA A30"))
    fake_nvml.write("root", "")
    fake_nvml.write("gpus/0/mig_resets", "")
    driver = MigDriver(fake_nvml.uuid(0))
    with nvml_open():
        record = Record(boot_id(), driver.state())
        with pytest.raises(pynvml.NVMLError_ResetRequired):
            driver.set_mode(enabled=True)
        assert driver.state().pending
    assert restore(record) == []
    assert not now(fake_nvml).pending


def test_what_others_made_meanwhile_stays_and_is_told(machine):
    """An administrator has replaced ours by others."""
    record, made = cut_anew(machine, ("7g.40gb", 0))
    _, others = cut_anew(machine, ("4g.20gb", 0), ("2g.10gb", 4))
    (left,) = restore(sealed(record, made))
    assert "no room beside the instances" in left and f"-cgi 3g.20gb:{record.before.instances[0].start} -C" in left
    assert "-dgi" not in left and set(others.instances) <= set(now(machine).instances)


def test_what_others_put_into_ours_stays(machine):
    record, made = cut_anew(machine, ("7g.40gb", 0))
    driver = MigDriver(machine.uuid(0))
    with nvml_open():
        (ours,) = made.instances
        driver.destroy_part(ours.id, ours.compute[0].id)
        driver.make_part(ours.id, "1c.7g.40gb", 0)
        others = driver.state()
    assert next(iter(others.instances[0].uuids)) in ours.uuids, "of the same place, so of the same UUID"
    (left,) = restore(sealed(record, made))
    assert "-dgi" not in left and now(machine) == others


def test_what_another_run_has_claimed_stays_and_who_is_told(machine, tmp_path):
    """An administrator has made the same for others: only their claim tells."""
    record, made = cut_anew(machine, ("7g.40gb", 0))
    (uuid,) = made.instances[0].uuids
    with claimed_by_another_process(f"gpu-{uuid}"):
        (left,) = restore(sealed(record, made), patience_s=0.1)
        assert f"is in use by a run that has claimed it in {tmp_path}" in left and now(machine) == made
    assert restore(sealed(record, made)) == []


def test_compute_instances_in_an_instance_that_stays_are_made_whole_again(machine):
    """As `mig-ci` leaves it: the first part is of the same place as the whole one was, so it has its UUID."""
    driver = MigDriver(machine.uuid(0))
    with nvml_open():
        before = driver.state()
        (whole,) = (one for one in before.instances if one.profile == "3g.20gb")
        record = Record(boot_id(), before).about_to_make([whole.place])
        driver.destroy_part(whole.id, 0)
        for part in (("2c.3g.20gb", 0), ("1c.3g.20gb", 2)):
            driver.make_part(whole.id, *part)
        made = driver.state()
    assert {uuid for one in made.instances for uuid in one.uuids} & whole.uuids
    assert restore(sealed(record, made)) == [] and now(machine) == before


def test_a_record_of_another_boot_is_not_believed(machine):
    record, made = cut_anew(machine, ("7g.40gb", 0))
    old = Record("another", record.before, record.places, made)
    write_record(old)
    assert read_record(machine.uuid(0)) is None
    assert restore(old) == [] and now(machine) == made


@pytest.mark.parametrize("others", [(), ("2g.12gb",)], ids=["empty", "cut by others since"])
def test_mig_mode_outlives_a_boot_on_ampere_and_goes_off_again(fake_nvml, others):
    fake_nvml.add(FakeGpu("NVIDIA A30", mig=others))
    fake_nvml.write("root", "")
    there = now(fake_nvml)
    was_off = MigState(there.gpu, there.model, enabled=False, pending=False)
    write_record(Record("another", was_off, (("4g.24gb", 0),), MigState(there.gpu, there.model, True, True)))
    assert restore(read_record(there.gpu)) == [] and not record_file(there.gpu).exists()
    assert now(fake_nvml).enabled == bool(others) and now(fake_nvml).instances == there.instances


def test_a_mode_that_an_administrator_has_turned_off_stays_off(machine):
    record, made = cut_anew(machine, ("7g.40gb", 0))
    driver = MigDriver(machine.uuid(0))
    with nvml_open():
        (ours,) = made.instances
        driver.destroy_part(ours.id, 0)
        driver.destroy(ours.id)
        driver.set_mode(enabled=False)
    (left,) = restore(sealed(record, made))
    assert "somebody else has turned MIG mode" in left and not now(machine).enabled
    assert read_record(machine.uuid(0)) is None, "what is wanted now is another layout"


def test_a_mode_that_only_a_reset_turns_off_is_told_at_once(fake_nvml):
    fake_nvml.add(FakeGpu("NVIDIA A30"))
    fake_nvml.write("root", "")
    record = Record(boot_id(), now(fake_nvml))
    fake_nvml.write("gpus/0/mig_mode", 1)
    fake_nvml.write("gpus/0/mig_resets", "")
    fake_nvml.log_calls()
    (left,) = restore(record, patience_s=60)
    assert "the GPU must be reset first" in left
    assert sum("SetMigMode" in call for call in fake_nvml.calls()) == 1


def test_what_was_left_behind_is_told_until_it_is_restored(machine):
    gpu = machine.uuid(0)
    assert left_behind(gpu) == ""
    record, _ = cut_anew(machine, ("7g.40gb", 0))
    told = left_behind(gpu)
    assert "-gi 0 -dgi" in told and "-cgi 3g.20gb:0 -C" in told and str(record_file(gpu)) in told
    with claimed_by_another_process(f"gpu-{gpu}"):
        assert left_behind(gpu) == "", "the run is still on"
    (machine.root / "root").unlink()
    assert "may not have got back" in left_behind(gpu), "to a user"
    machine.write("root", "")
    assert str(record_file(gpu)) in gpus.gpus()[1] and str(record_file(gpu)) in gpus.backend(MIG)[1]
    assert restore(record) == [] and left_behind(gpu) == "" == gpus.gpus()[1]


def test_a_busy_instance_keeps_its_idle_compute_instances(machine):
    driver = MigDriver(machine.uuid(0))
    with nvml_open():
        before = driver.state()
        record = Record(boot_id(), before).about_to_make([("2g.10gb", 4)])
        number = driver.make("2g.10gb", 4)
        for start in range(2):
            driver.make_part(number, "1c.2g.10gb", start)
        made = driver.state()
    machine.write(f"gpus/0/gi/{number}/ci/1/processes/4321", 1)
    (left,) = restore(sealed(record, made), patience_s=0.1)
    assert "in use by process 4321: wait for it, or end it" in left and now(machine) == made
    assert [line for line in left.splitlines() if "-dci" in line] and "-cgi" not in left, "only what is left to do"


def test_processes_that_are_just_ending_are_waited_for(machine):
    record, made = cut_anew(machine, ("7g.40gb", 0))
    file = next((machine.root / "gpus/0/gi").glob("*/ci/0")) / "processes/4321"
    file.parent.mkdir()
    file.write_text("1")
    ending = Timer(0.5, file.unlink)
    ending.start()
    assert restore(sealed(record, made), patience_s=60) == []
    ending.join()


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetGpuInstances",
        "nvmlGpuInstanceGetInfo",
        "nvmlDeviceGetMigDeviceHandleByIndex",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlComputeInstanceDestroy",
        "nvmlGpuInstanceDestroy",
        "nvmlDeviceCreateGpuInstanceWithPlacement",
        "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
    ],
)
def test_whatever_fails_for_a_moment_is_tried_again(machine, function):
    record, made = cut_anew(machine, ("7g.40gb", 0))
    machine.fail(function, pynvml.NVML_ERROR_IN_USE, times=2)
    assert restore(sealed(record, made), patience_s=60) == []
    assert (machine.root / "fail" / function).read_text().split()[1] == "0", "the fault was met"
    assert now(machine).shapes == record.before.shapes


@pytest.mark.parametrize("function", ["nvmlComputeInstanceDestroy", "nvmlDeviceCreateGpuInstanceWithPlacement"])
def test_what_fails_for_good_is_told_with_the_commands_that_are_left(machine, function):
    record, made = cut_anew(machine, ("7g.40gb", 0))
    write_record(record)
    machine.fail(function, pynvml.NVML_ERROR_NO_PERMISSION)
    began = time.monotonic()
    (left,) = restore(sealed(record, made), patience_s=60)
    assert time.monotonic() - began < 30 and "it needs root" in left and "by hand:\n  nvidia-smi mig -i GPU-" in left
    assert record_file(machine.uuid(0)).exists(), "a next run may do it"
    (machine.root / "fail" / function).unlink()
    assert restore(read_record(machine.uuid(0))) == [] and now(machine).shapes == record.before.shapes


def test_a_gpu_that_does_not_answer_is_told(machine):
    record, made = cut_anew(machine, ("7g.40gb", 0))
    machine.fail("nvmlDeviceGetHandleByUUID", pynvml.NVML_ERROR_GPU_IS_LOST)
    (left,) = restore(sealed(record, made), patience_s=0.1)
    assert "may not have the MIG instances that it had" in left


def test_a_broken_record_is_an_error_with_a_remedy(machine):
    record_file("GPU-x").write_text("{}")
    with pytest.raises(MachineError, match="is no record of MIG instances"):
        read_record("GPU-x")


def test_all_gpus_of_the_notes_are_restored(machine):
    record, made = cut_anew(machine, ("7g.40gb", 0))
    assert restoring.restore_all({machine.uuid(0): sealed(record, made).to_json()}) == []
    assert now(machine).shapes == record.before.shapes
