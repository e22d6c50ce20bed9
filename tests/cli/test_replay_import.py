import sys

import pytest
from click.testing import CliRunner

from gmi_drl.cli.replay.import_command import import_
from gmi_drl.errors import UsageError
from tests.replay.importing.made_episodes import made_episodes, write_minari


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py", reason="needs the extra [offline]")


def test_sources_are_joined_and_told(tmp_path, h5py):
    write_minari(tmp_path / "a.hdf5", made_episodes(3), h5py)
    write_minari(tmp_path / "b.hdf5", made_episodes(4), h5py)
    with h5py.File(tmp_path / "b.hdf5", "r+") as file:
        del file["episode_2/rewards"]
    sources, into = [str(tmp_path / "a.hdf5"), str(tmp_path / "b.hdf5")], str(tmp_path / "c.replay")
    with pytest.raises(UsageError, match="episode 2: it has no rewards"):
        import_.main([*sources, "--into", into], standalone_mode=False)
    told = CliRunner().invoke(import_, [*sources, "--into", into, "--skip-broken"])
    assert told.exit_code == 0, told
    assert "Left out: " in told.output and "1 episodes were left out" in told.output
    assert f"Wrote {into}: 6 episodes of " in told.output.replace("\n", "")


def test_all_sources_are_looked_for_before_one_is_read(tmp_path, h5py):
    write_minari(tmp_path / "a.hdf5", made_episodes(1), h5py)
    with h5py.File(tmp_path / "a.hdf5", "r+") as file:
        del file["episode_0/rewards"]
    sources = [str(tmp_path / "a.hdf5"), str(tmp_path / "none.hdf5")]
    with pytest.raises(UsageError, match="no such file or folder"):
        import_.main([*sources, "--into", str(tmp_path / "c.replay")], standalone_mode=False)


def test_without_h5py_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "a.hdf5").write_bytes(b"x")
    told = CliRunner().invoke(import_, [str(tmp_path / "a.hdf5"), "--into", str(tmp_path / "c.replay")])
    assert "gmi-drl[offline]" in str(told.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["a.hdf5"]
