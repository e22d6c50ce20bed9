"""Trainings whose nodes do not see the run folder: all that stays of them comes to the launcher's."""

import getpass
import signal
import time
from contextlib import suppress

import psutil
import pytest
from conftest import two_cores
from on_two import config, over
from test_training_on_nodes import learner, trained
from unshared import needs_mounts, unseen

from gmi_drl.config.policies import PolicySection
from gmi_drl.errors import GmiDiedError, MachineError
from gmi_drl.launch.job import resolve
from gmi_drl.launch.nodes import folder_receive
from gmi_drl.launch.nodes.supervisor_starters import MODULE, SubprocessSupervisors
from gmi_drl.launch.training import train
from gmi_drl.run.checkpoint import list_checkpoints, read_index
from gmi_drl.run.folder import RunFolder
from tests.launch.test_several_policies import CHASERS, RUNNERS, config_of, layout_of, untrained

pytestmark = [needs_mounts, two_cores]


def names(folder):
    return sorted(str(path.relative_to(folder.path)) for path in folder.path.rglob("*") if path.is_file())


def running():
    """What this process has started, and what that has, with their command lines."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            yield process, " ".join(process.cmdline())


@pytest.mark.parametrize("nodes", ["a", "b", "ab"], ids="not seen by {}".format)
def test_a_run_leaves_the_same_files_whoever_sees_its_folder(tmp_path, nodes):
    seen, here = trained(tmp_path / "seen", over("a", "b"), SubprocessSupervisors())
    folder, there = trained(tmp_path / "run", over("a", "b"), unseen(tmp_path, *nodes))
    assert there.state == "done" and learner(there) == learner(here)
    assert names(folder) == names(seen)
    assert read_index(there.checkpoint)["parts"].keys() == read_index(here.checkpoint)["parts"].keys()


def test_it_goes_on_from_a_checkpoint_that_no_node_sees(tmp_path):
    _, whole = trained(tmp_path / "whole", over("a", "b"), unseen(tmp_path, "b"), config=config(iterations=4))
    folder, outcome = trained(tmp_path / "run", over("a", "b"), unseen(tmp_path, "a", "b"), config=config(iterations=2))
    again = train(
        resolve(over("a", "b"), config(iterations=4), folder),
        resume=outcome.checkpoint,
        supervisors=unseen(tmp_path, "a", "b"),
    )
    assert again.iteration == 4 and learner(again) == learner(whole)


def test_several_policies_save_and_go_on_though_their_node_does_not_see_the_folder(tmp_path):
    here = layout_of("chasers", "runners", served=False)
    layout = here.model_copy(update={"devices": (here.devices[0].model_copy(update={"node": "a"}),)})
    folder, resume = RunFolder(tmp_path / "run"), None
    folder.create()
    for iterations in (1, 2):
        own = config_of({"chasers": CHASERS, "runners": RUNNERS}, iterations=iterations, hang_s=300.0)
        outcome = train(resolve(layout, own, folder), resume=resume, supervisors=unseen(tmp_path, "a"))
        resume = outcome.checkpoint
        saved = [[path.name for path in list_checkpoints(one.checkpoints)] for one in folder.learning]
        assert saved == [[f"{iterations - 1:06d}", f"{iterations:06d}"]] * 2, "two are kept"
    assert not list_checkpoints(folder.checkpoints)


def test_an_actor_acts_by_a_frozen_policy_whose_folder_its_node_does_not_see(tmp_path):
    here = layout_of("chasers", served=False)
    layout = here.model_copy(update={"devices": (here.devices[0].model_copy(update={"node": "a"}),)})
    frozen = PolicySection(agents=("agent_0",), checkpoint=str(untrained(tmp_path / "frozen").path))
    folder = RunFolder(tmp_path / "run")
    folder.create()
    own = config_of({"chasers": CHASERS, "runners": frozen}, iterations=1, hang_s=300.0)
    assert train(resolve(layout, own, folder), supervisors=unseen(tmp_path, "a")).state == "done"


def test_the_last_words_of_a_gmi_that_dies_out_of_sight_are_told(tmp_path, tmp_path_factory, monkeypatch):
    copies = tmp_path_factory.mktemp("copies")
    log = tmp_path / "run" / "logs" / "gmi-3.log"

    def abort(row):  # Python tells of it in the log
        (gmi,) = [one for one, line in running() if f"GMI 3 of {copies}" in line]
        gmi.send_signal(signal.SIGABRT)

    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    monkeypatch.setenv("TMPDIR", str(copies))
    with pytest.raises(GmiDiedError, match=r"GMI 3 \(process \d+, node b\) was killed by SIGABRT") as caught:
        trained(tmp_path / "run", over("a", "b"), unseen(tmp_path, "b"), config=config(iterations=10**6), on_row=abort)
    assert f"its log is {log}" in str(caught.value) and "  | " in str(caught.value)
    assert "Fatal Python error: Aborted" in log.read_text() and not any(copies.iterdir())


def test_a_disk_that_takes_no_more_at_the_launcher_ends_the_run(tmp_path, monkeypatch):
    def full(self, file, offset, data, *, is_last):
        raise MachineError(f"{file} cannot be written: No space left on device")

    monkeypatch.setattr(folder_receive.FolderReceiver, "take", full)
    with pytest.raises(Exception, match="No space left on device") as caught:
        trained(tmp_path / "run", over("a", "b"), unseen(tmp_path, "b"))
    assert caught.value.exit_code == MachineError.exit_code


def test_a_node_without_room_for_the_checkpoint_is_named_before_it_gets_any_of_it(
    tmp_path, tmp_path_factory, monkeypatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("copies")))
    folder, outcome = trained(tmp_path / "run", over("a", "b"), unseen(tmp_path, "b"), config=config(iterations=2))
    with pytest.raises(Exception, match=r"^node b: .*64.0 KiB are free, what the run goes on from needs") as caught:
        train(
            resolve(over("a", "b"), config(iterations=4), folder),
            resume=outcome.checkpoint,
            supervisors=unseen(tmp_path, "b", small=True),
        )
    assert caught.value.exit_code == MachineError.exit_code


def test_an_agent_that_is_killed_leaves_no_folder(tmp_path, tmp_path_factory, monkeypatch):
    copies, killed = tmp_path_factory.mktemp("copies"), []

    def kill(row):
        if not killed:
            killed.extend(one for one, line in running() if line.endswith(f"{MODULE} b"))
            assert any(copies.iterdir()), "else there is nothing to see"
            killed[0].kill()

    monkeypatch.setenv("TMPDIR", str(copies))
    with pytest.raises(GmiDiedError, match=r"node b: its supervisor .* was lost with its node"):
        trained(tmp_path / "run", over("a", "b"), unseen(tmp_path, "b"), config=config(iterations=10**6), on_row=kill)
    assert empty_soon(copies)


TORCHS_CACHES = f"torchinductor_{getpass.getuser()}"


def empty_soon(folder, within_s=60.0):
    """Whether nothing is left but the folder of caches that torch makes when it is first imported."""
    deadline = time.monotonic() + within_s
    while (left := {one.name for one in folder.iterdir()} - {TORCHS_CACHES}) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not left
