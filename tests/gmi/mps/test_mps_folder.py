import errno
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from conftest import open_descriptors

from gmi_drl.errors import MachineError
from gmi_drl.gmi.mps.folder import (
    MOST_BYTES,
    base,
    control_of,
    controls_in,
    made,
    new_name,
    remove,
    stale,
    watchdog_log,
)


@pytest.fixture
def above(monkeypatch):
    with TemporaryDirectory(prefix="mps-", dir="/tmp") as short:  # paths of sockets must be
        folder = Path(short) / "all"
        monkeypatch.setenv("GMI_DRL_MPS", str(folder))
        yield folder


def test_folders_are_for_their_user_alone(above):
    with made() as (name, _):
        assert name.parent == above and above.stat().st_mode & 0o777 == name.stat().st_mode & 0o777 == 0o700
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


HOLDS = """
import os, time
from gmi_drl.gmi.mps.folder import made
with made() as (folder, lock):
    if not os.fork():  # as the watchdog does
        print(flush=True)
        time.sleep(600)
    os._exit(0)
"""


def test_a_folder_is_stale_when_nobody_sees_to_it_any_more(above):
    assert stale() == []
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, process_group=0) as process:
        process.stdout.readline()
        assert stale() == [] and len(list(above.iterdir())) == 2
        os.killpg(process.pid, 9)
        process.stdout.read()  # until the fork has ended, too
    (left,) = stale()
    assert left.is_dir()
    remove(left)
    assert list(above.iterdir()) == []


def test_what_lies_beside_a_folder_that_is_gone_is_stale(above):
    with made() as (folder, _):
        assert stale() == []
    folder.rmdir()
    watchdog_log(above / "0123abcd").write_text("")
    assert stale() == sorted([folder, above / "0123abcd"])


def test_what_else_lies_in_the_folder_of_all_claims_is_not_theirs(above):
    """The user may name any folder by GMI_DRL_MPS, such as that of a project."""
    above.mkdir(mode=0o700)
    for folder in ("data/0/pipe", "deadbeef"):
        (above / folder).mkdir(parents=True)
    for file in ("data.tar", "data.lock", "deadbeef.tar", "0123abcde.log"):
        (above / file).touch()
    assert stale() == []


def test_a_folder_of_all_claims_that_others_can_open_is_not_looked_into(above):
    above.mkdir(mode=0o755)
    (above / "strange").mkdir()
    assert stale() == []


def test_daemons_of_a_folder_are_found_again(above):
    control_of(above, 3).pipes.mkdir(parents=True)
    assert [control.pipes for control in controls_in(above)] == [above / "3" / "pipe"]


def test_a_folder_that_cannot_be_made_is_told_with_the_remedy_and_nothing_is_left(above, monkeypatch):
    def full(path, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = open_descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", full)
        told = r"cannot have folders there \(No space left on device\): make room"
        with pytest.raises(MachineError, match=told), made():
            pass
    assert list(above.iterdir()) == [] and open_descriptors() == before
    with pytest.raises(OSError, match="of who uses it"), made():
        raise OSError("of who uses it")
