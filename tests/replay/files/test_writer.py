import shutil

import pytest
from blocks import FACTS, random_experience

from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.replay import ExperienceDataset
from gmi_drl.replay.files.index import GMIExperience
from gmi_drl.replay.files.shards import ShardFiles
from gmi_drl.replay.files.writer import write_experience

GMIS = {0: GMIExperience(num_env=4, seed=1, shards=()), 1: GMIExperience(num_env=4, seed=2, shards=())}


def write_a_shard(folder, gmi, current):
    sink = ShardFiles(folder, gmi, lambda shard: current.add(gmi, shard.model_dump()))
    sink.take(random_experience(3, 4, seed=0))
    sink.close()


def enter(folder, need_bytes=0):
    with write_experience(folder, FACTS, GMIS, need_bytes):
        pytest.fail("it was not refused")


@pytest.mark.parametrize("state", ["done", "stopped"])
def test_the_index_comes_last_and_has_the_reported_shards(tmp_path, state):
    folder = tmp_path / "new" / "experience"
    with write_experience(folder, FACTS, GMIS, 0) as current:
        write_a_shard(folder, 1, current)
        with pytest.raises(UsageError, match="it is being written"):
            ExperienceDataset(folder)
        current.state = state
    read = ExperienceDataset(folder)
    assert read.index.state == state and [len(gmi.shards) for gmi in read.index.gmis.values()] == [0, 1]
    assert (read.index.gmis[0].seed, read.index.gmis[1].num_env, read.index.run) == (1, 4, "/runs/x")
    assert sorted(path.name for path in folder.iterdir()) == ["gmi-1-000000.safetensors", "index.json"]


def test_nothing_seen_is_a_dataset_of_nothing(tmp_path):
    with write_experience(tmp_path / "experience", FACTS, GMIS, 0):
        pass
    read = ExperienceDataset(tmp_path / "experience")
    assert len(read) == 0 and list(read.blocks(0)) == []


def test_complete_shards_are_kept_when_a_gmi_fails(tmp_path):
    folder = tmp_path / "experience"
    with pytest.raises(GmiError, match="GMI 0 died"), write_experience(folder, FACTS, GMIS, 0) as current:
        write_a_shard(folder, 1, current)
        (folder / ".gmi-0-000000.safetensors.17.draft").touch()
        raise GmiError("GMI 0 died")
    read = ExperienceDataset(folder)
    assert read.index.state == "failed" and len(read) > 0
    assert sorted(path.name for path in folder.iterdir()) == ["gmi-1-000000.safetensors", "index.json"]


@pytest.mark.parametrize("was_there", [False, True])
def test_where_it_fails_at_once_nothing_stays(tmp_path, was_there):
    folder = tmp_path / "experience"
    if was_there:
        folder.mkdir()
    with pytest.raises(KeyboardInterrupt), write_experience(folder, FACTS, GMIS, 0):
        raise KeyboardInterrupt
    assert folder.exists() == was_there and not (was_there and list(folder.iterdir()))


def test_a_folder_with_something_in_it_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UsageError, match=r"is not empty, it has thesis\.tex: name a new folder"):
        enter(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(UsageError, match="is no empty folder"):
        enter(tmp_path / "thesis.tex")


def test_two_do_not_write_into_one_folder(tmp_path):
    with write_experience(tmp_path, FACTS, GMIS, 0), pytest.raises(UsageError, match=r"is not empty, it has \.writing"):
        enter(tmp_path)
    assert len(ExperienceDataset(tmp_path)) == 0


def test_a_lack_of_room_is_an_error_at_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 2**20})())
    folder = tmp_path / "experience"
    with pytest.raises(MachineError, match=r"experience: 1\.0 MiB are free, the experience needs 2\.0 MiB: fewer"):
        enter(folder, 2**21)
    assert not folder.exists()


def test_a_folder_that_cannot_be_made_is_an_error_of_the_machine(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="the experience cannot be written: Not a directory"):
        enter(tmp_path / "file" / "experience")
