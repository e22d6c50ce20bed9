from contextlib import closing

import pytest

from gmi_drl.errors import MachineError
from gmi_drl.run import file_presence
from gmi_drl.run.file_presence import Presence, pinned


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a" / "run").mkdir(parents=True)
    return tmp_path / "a" / "run"


def remove(folder):
    folder.rmdir()


def replace(folder):
    folder.rename(folder.with_name("old"))
    folder.mkdir()


def put_a_file_above(folder):
    folder.parent.rename(folder.parent.with_name("b"))
    folder.parent.write_text("")


@pytest.mark.parametrize("harm", [remove, replace, put_a_file_above])
def test_a_file_that_lost_its_name_is_not_there(folder, harm):
    with closing(Presence(folder)) as home:
        home.require()
        harm(folder)
        assert not home.is_there()
        with pytest.raises(MachineError, match="run was removed, moved or replaced"):
            home.require()


def test_looks_are_rare(folder, monkeypatch):
    monkeypatch.setattr(file_presence, "CHECK_S", 600.0)
    with closing(Presence(folder)) as home:
        folder.rmdir()
        home.check()  # it has looked just now
        monkeypatch.setattr(file_presence, "CHECK_S", 0.0)
        with pytest.raises(MachineError):
            home.check()


def test_a_pinned_path_follows_its_folder(folder):
    path = pinned(folder)
    folder.rename(folder.with_name("old"))
    folder.mkdir()
    (path / "file").touch()
    assert (folder.with_name("old") / "file").exists() and not [*folder.iterdir()]
    assert path.resolve() == folder.with_name("old")
