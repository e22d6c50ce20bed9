import queue
from dataclasses import replace
from pathlib import Path

import pytest

from gmi_drl.errors import GmiError, MachineError
from gmi_drl.launch.frozen_policies import FrozenPolicy
from gmi_drl.launch.nodes import folder_upload
from gmi_drl.launch.nodes.folder_receive import FolderReceiver
from gmi_drl.launch.nodes.folder_upload import FolderUpload
from gmi_drl.run.folder import RunFolder
from tests.launch.test_several_policies import untrained


@pytest.fixture
def folder(tmp_path):
    made = RunFolder(tmp_path / "run")
    made.create()
    return made


def receiver_of(folder, **more):
    """Of a run with one policy."""
    return FolderReceiver(folder, lambda gmi_id: folder, **{"restored": folder.learning} | more)


@pytest.mark.parametrize("size", [0, 1, 4, 5, 9])
def test_a_file_that_is_carried_in_pieces_arrives_whole_and_at_once(folder, monkeypatch, size):
    monkeypatch.setattr(folder_upload, "CHUNK_BYTES", 4)
    receiver, file, seen = receiver_of(folder), "checkpoints/.000001.draft/learner.safetensors", []
    stale = folder.path / "checkpoints" / ".000001.draft" / ".learner.safetensors.carried"
    stale.parent.mkdir()
    stale.write_bytes(b"of a run that was killed")

    def say(message, data):
        seen.append((folder.path / file).exists())
        receiver.take(message["file"], message["offset"], data, is_last=message["is_last"])

    with FolderUpload(folder.path, say) as made:
        written = made.here(str(folder.path / file))
        written.parent.mkdir(parents=True)
        written.write_bytes(bytes(range(size)))
        made.send_file(0, written)
        assert not written.exists()
    assert (folder.path / file).read_bytes() == bytes(range(size)) and not stale.exists()
    assert not any(seen) and len(seen) == max(1, -(-size // 4)) and not made.path.exists()


def test_a_host_without_the_folder_gets_the_setup_and_the_newest_checkpoint(folder):
    for name in ("layout.yaml", "config.yaml", *(f"checkpoints/00000{number}/checkpoint.json" for number in (1, 2))):
        (folder.path / name).parent.mkdir(exist_ok=True)
        (folder.path / name).write_text(name)
    with FolderUpload(folder.path, print) as made:
        for file, data in receiver_of(folder).pieces():
            made.take(file, data)
        got = {str(file.relative_to(made.path)): file.read_text() for file in made.path.rglob("*") if file.is_file()}
    assert got == {name: name for name in ("layout.yaml", "config.yaml", "checkpoints/000002/checkpoint.json")}


def test_a_host_without_the_folder_gets_the_newest_checkpoint_of_each_policy(folder):
    names = {f"policies/{policy}/checkpoints/00000{number}/checkpoint.json" for policy in "ab" for number in (1, 2)}
    files = [f"{place}{name}.yaml" for place in ("", "policies/a/", "policies/b/") for name in ("layout", "config")]
    for name in (*files, *names):
        (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.path / name).write_text(name)
    got = dict(receiver_of(folder).pieces())
    assert got.keys() == {*files, *(name for name in names if "000002" in name)}
    assert receiver_of(folder).size() == 2 * len("policies/a/checkpoints/000002/checkpoint.json")


def test_a_host_whose_gmis_act_by_a_frozen_policy_gets_its_setup_and_learner_alone(folder, tmp_path):
    frozen = FrozenPolicy("a", untrained(tmp_path / "other"), folder.frozen("a"))
    for text in ("old", "new"):  # which replaces it
        frozen.source.config_file.write_text(text)
        frozen.copy()
    replace(frozen, source=frozen.folder).copy()
    receiver = receiver_of(folder, frozen=[frozen])
    saved = folder.frozen("a").checkpoints / "000002"
    names = {file.relative_to(folder.path) for file in saved.iterdir()}
    assert {file.name for file in names} == {"checkpoint.json", "learner.safetensors"}
    files = {Path("layout.yaml"), Path("config.yaml"), Path("frozen/a/layout.yaml"), Path("frozen/a/config.yaml")}
    assert {*receiver.files()} == files | names
    assert receiver.size() == (saved / "learner.safetensors").stat().st_size
    assert folder.frozen("a").config_file.read_text() == "new"
    frozen.source.layout_file.unlink()
    with pytest.raises(MachineError, match=r"policies\.a\.checkpoint: .*other cannot be copied to .*: No such file"):
        frozen.copy()


def test_a_command_is_for_the_checkpoints_of_the_policy_of_its_gmi(folder):
    drafts = [one.checkpoints / ".000001.draft" for one in (folder, folder.policy("a"), folder.policy("b"))]
    for draft in drafts:
        draft.mkdir(parents=True)
    folder_of = {1: folder.policy("a"), 2: folder.policy("b")}.__getitem__
    FolderReceiver(folder, folder_of, restored=[]).do(2, "drop_drafts", {})
    assert [draft.exists() for draft in drafts] == [True, True, False]


def test_a_host_without_trainers_gets_no_checkpoint(folder):
    for name in ("layout.yaml", "config.yaml", "checkpoints/000001/checkpoint.json"):
        (folder.path / name).parent.mkdir(exist_ok=True)
        (folder.path / name).write_text(name)
    receiver = receiver_of(folder, restored=[])
    assert [file for file, _ in receiver.pieces()] == ["layout.yaml", "config.yaml"] and receiver.size() == 0


def test_a_host_without_room_for_the_first_files_makes_no_copy(folder, tmp_path, monkeypatch):
    assert receiver_of(folder).size() == 0, "a new run has not even a setup yet"
    for number in (1, 2):
        (folder.checkpoints / f"00000{number}").mkdir()
        (folder.checkpoints / f"00000{number}" / "checkpoint.json").write_text("x" * number)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert receiver_of(folder).size() == 2
    with (
        pytest.raises(MachineError, match=r"are free, what the run goes on from needs 1048576.0 TiB"),
        FolderUpload(folder.path, print, begins_with=2**60),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("file", ["/etc/hosts", "../elsewhere", "logs/../../elsewhere"])
def test_nothing_is_written_outside_of_the_run_folder(folder, file):
    with pytest.raises(MachineError, match="which is outside of the run folder"):
        receiver_of(folder).take(file, 0, b"", is_last=True)


def test_receiver_refuses_unknown_commands(folder):
    with pytest.raises(GmiError, match="unknown command 'create'; known are require_room, commit, drop_drafts"):
        receiver_of(folder).do(0, "create", {})


def test_what_is_printed_is_carried_once_and_in_order(folder):
    said = []
    with FolderUpload(folder.path, lambda message, data: said.append((message["gmi"], data))) as made:
        log = RunFolder(made.path).log_file(7)
        log.write_text("one")
        made.watch_log(7)
        made.send_log(7)
        made.send_log(7)
        log.write_text("one two")
    assert b"".join(data for _, data in said) == b"one two" and {gmi for gmi, _ in said} == {7}


def test_a_log_that_cannot_be_read_is_told_once_and_others_are_carried_on(folder, monkeypatch):
    monkeypatch.setattr(folder_upload, "LOG_S", 0.01)
    said = queue.SimpleQueue()
    with FolderUpload(folder.path, lambda message, data: said.put((message["gmi"], data))) as made:
        made.watch_log(1)
        made.watch_log(2)
        log = RunFolder(made.path).log_file(2)
        log.write_text("two")
        told = dict(said.get(timeout=30) for _ in range(2))
        made.send_log(1)
    assert b"cannot be read on its node: [Errno 2]" in told[1] and told[2] == b"two" and said.empty()


def test_the_log_of_a_gmi_that_is_started_again_goes_on(folder):
    said = []
    with FolderUpload(folder.path, lambda message, data: said.append(data)) as made:
        log = RunFolder(made.path).log_file(7)
        for words in ("one", "one two"):
            log.write_text(words)
            made.watch_log(7)
            made.send_log(7)
    assert b"".join(said) == b"one two"
