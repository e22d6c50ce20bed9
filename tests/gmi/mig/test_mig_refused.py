"""`--apply-mig` refuses before anything is changed what is in use, has no room, or may not be done."""

import os
from dataclasses import replace
from threading import Timer

import pynvml
import pytest

from gmi_drl.errors import LayoutMismatchError, MachineError
from gmi_drl.gmi.mig import busy
from gmi_drl.gmi.mig.apply import make
from tests.gmi.mig.cut_by_mig import A100, cut, cut_a100, keep_to_itself, layout, state
from tests.gmi.mig.gpus_with_mig import claimed_by_another_process, folder_of
from tests.gmi.nvml.fake import FakeGpu


@pytest.fixture(autouse=True)
def own_claims(tmp_path, monkeypatch):
    keep_to_itself(tmp_path, monkeypatch)


@pytest.fixture
def machine(fake_nvml):
    return cut_a100(fake_nvml)


def folder_of_user(tmp_path):
    """Of the locks of a user, who has made it."""
    theirs = tmp_path / "tmp" / f"gmi-drl-claims-{os.getuid()}"
    theirs.mkdir(parents=True, mode=0o700)
    return theirs


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


def test_a_driver_with_older_lists_of_processes_is_told_in_words(machine):
    before = state(machine)
    machine.fail("nvmlDeviceGetComputeRunningProcesses_v3", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    with pytest.raises(MachineError, match=r"Function Not Found.*too old for what is asked of it"):
        cut(layout(None))
    assert state(machine) == before


def test_a_device_that_this_process_may_not_open_is_not_destroyed(machine):
    before = state(machine)
    (uuid,) = before.instances[0].uuids
    unseen = folder_of(machine, uuid) / "unseen"
    unseen.write_text("")
    with pytest.raises(LayoutMismatchError, match=r"in use by whoever may open it: .*/dev/nvidia-caps"):
        cut(layout(None))
    unseen.unlink()
    assert state(machine) == before


def test_an_instance_that_is_made_and_closed_to_this_process_is_told(machine):
    made = state(machine)
    closed = replace(made.instances[0], compute=(replace(made.instances[0].compute[0], uuid=""),))
    one = layout("3g.20gb")
    with pytest.raises(MachineError, match=r"GMI 0 has its 3g.20gb, but this process may not open it: see /dev/nvidia"):
        make.hand_out(one.gmis, replace(made, instances=(closed,)), [closed.shape])


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
    with pytest.raises(MachineError, match="in this container NVML does not show"):
        cut(layout(None))
    assert state(machine) == before


def test_what_other_users_have_claimed_counts_as_in_use(machine, tmp_path):
    """Their locks lie in folders of their own, which root can look into."""
    before = state(machine)
    (uuid,) = before.instances[0].uuids
    theirs = folder_of_user(tmp_path)
    with (
        claimed_by_another_process(f"gpu-{uuid}", theirs),
        pytest.raises(LayoutMismatchError, match=r"in use by a run that has claimed it in .*gmi-drl-claims-"),
    ):
        cut(layout(None))
    assert state(machine) == before and cut(layout(None))


def test_a_gpu_that_another_user_has_claimed_keeps_its_mode(fake_nvml, tmp_path):
    """Who is still loading has no context yet, and NVML lists nobody."""
    fake_nvml.add(FakeGpu(A100))
    fake_nvml.write("root", "")
    with (
        claimed_by_another_process(f"gpu-{fake_nvml.uuid(0)}", folder_of_user(tmp_path)),
        pytest.raises(LayoutMismatchError, match=r"in use by a run that has claimed it .* and MIG mode is off"),
    ):
        cut(layout(None))
    assert not state(fake_nvml).enabled


def test_where_processes_are_hidden_the_mode_is_not_changed(fake_nvml, monkeypatch):
    monkeypatch.setattr(make, "hides_processes", lambda: True)
    fake_nvml.add(FakeGpu(A100))
    fake_nvml.write("root", "")
    with pytest.raises(MachineError, match=r"MIG mode of GPU-\S+ is off, and in this container NVML does not show"):
        cut(layout(None))
    assert not state(fake_nvml).enabled


def test_what_others_put_into_their_folders_is_not_waited_for_nor_believed(machine, tmp_path):
    theirs, mine = folder_of_user(tmp_path), tmp_path / "tmp/gmi-drl-claims-4711"
    mine.mkdir()
    for folder in (theirs, mine):
        os.mkfifo(folder / "gpu-MIG-pipe")
    with claimed_by_another_process("gpu-MIG-x", mine):
        assert busy.claimed_elsewhere() == {}
