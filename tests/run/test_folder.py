import subprocess
import sys

import pytest
from conftest import tiny_config, tiny_layout

from gmi_drl.errors import LayoutMismatchError, MachineError, UsageError
from gmi_drl.run.folder import RunFolder


def test_what_is_created_is_read_back(tmp_path):
    folder = RunFolder(tmp_path / "a" / "run")
    folder.create()
    folder.write_setup(tiny_layout(), tiny_config())
    assert folder.read_setup() == (tiny_layout(), tiny_config())
    assert '"torch"' in (folder.path / "versions.json").read_text()
    folder.create()  # it never came as far as a checkpoint
    checkpoint = folder.checkpoints / "000000"
    checkpoint.mkdir()
    (checkpoint / "checkpoint.json").write_text("{}")
    with pytest.raises(UsageError, match=r"holds a run already.*--resume"):
        folder.create()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot be written"):
        RunFolder(tmp_path / "file" / "run").create()


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is not a run folder"):
        RunFolder(tmp_path).read_setup()


WORKER = """
import sys
from pathlib import Path
from gmi_drl.run.folder import RunFolder
folder = RunFolder(Path(sys.argv[1]))
with folder.lock():
    folder.write_state("running")
    print("working", flush=True)
    sys.stdin.read()
"""


def test_two_cannot_work_in_one_folder_and_a_dead_run_is_seen(tmp_path):
    folder = RunFolder(tmp_path)
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert worker.stdout.readline() == "working\n"
        assert folder.read_state()["state"] == "running"
        with pytest.raises(LayoutMismatchError, match=f"process {worker.pid} is training there"), folder.lock():
            pass
    finally:
        worker.kill()
        worker.communicate()
    assert folder.read_state()["state"] == "died"
    with folder.lock():
        folder.write_state("done")
    assert folder.read_state()["state"] == "done"
    (tmp_path / "state.json").write_text("{}")
    assert folder.read_state()["state"] == "unknown"


def test_an_error_inside_the_lock_stays_what_it_is(tmp_path):
    with pytest.raises(BlockingIOError, match="mine"), RunFolder(tmp_path).lock():
        raise BlockingIOError("mine")
