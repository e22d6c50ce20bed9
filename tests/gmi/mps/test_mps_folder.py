import json
import os
import subprocess

import pytest

from gmi_drl.errors import MachineError
from gmi_drl.gmi.mps.folder import (
    MOST_BYTES,
    RECORD,
    Process,
    base,
    control_of,
    controls_in,
    keeper_log,
    make,
    new_name,
    stale,
)


@pytest.fixture
def above(tmp_path, monkeypatch):
    folder = tmp_path / "all"
    monkeypatch.setenv("GMI_DRL_MPS", str(folder))
    monkeypatch.setattr("gmi_drl.gmi.mps.folder.MOST_BYTES", 4096)
    return folder


def test_folders_are_for_their_user_alone(above):
    name = new_name()
    assert name.parent == above and above.stat().st_mode & 0o777 == 0o700 and not name.exists()
    make(name, [Process.of(os.getpid())])
    assert name.stat().st_mode & 0o777 == 0o700
    above.chmod(0o755)
    with pytest.raises(MachineError, match="only you can open"):
        new_name()


def test_the_usual_folder_is_short_enough_for_sockets(monkeypatch):
    monkeypatch.delenv("GMI_DRL_MPS", raising=False)
    longest = control_of(base() / "00000000", 99).pipes / "control_privileged"
    assert len(os.fsencode(longest)) < MOST_BYTES


def test_a_long_path_is_refused_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("GMI_DRL_MPS", str(tmp_path / ("x" * 90)))
    with pytest.raises(MachineError, match="107 are possible: set GMI_DRL_MPS"):
        new_name()


def test_a_folder_is_stale_when_nobody_sees_to_it_any_more(above, monkeypatch):
    assert stale() == []
    ended = subprocess.Popen(["true"])
    gone = Process.of(ended.pid)
    ended.wait()
    ours, nobodys, unmarked = (above / name for name in ("ours", "nobodys", "unmarked"))
    above.mkdir(mode=0o700)
    make(ours, [gone, Process.of(os.getpid())])
    make(nobodys, [gone, Process(os.getpid(), 1)])
    unmarked.mkdir()
    keeper_log(above / "unmade").write_text("")
    assert stale() == [nobodys], "a number that another process has now is nobody"
    monkeypatch.setattr("gmi_drl.gmi.mps.folder.YOUNG_S", 0.0)
    assert stale() == [nobodys, above / "unmade", unmarked]
    assert json.loads((ours / RECORD).read_text())["holders"][1][0] == os.getpid()


def test_daemons_of_a_folder_are_found_again(above):
    control_of(above, 3).pipes.mkdir(parents=True)
    assert [control.pipes for control in controls_in(above)] == [above / "3" / "pipe"]
