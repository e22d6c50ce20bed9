import fcntl
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import tiny_config, tiny_layout

from gmi_drl.errors import LayoutMismatchError, MachineError, UsageError
from gmi_drl.run.checkpoint import drop_later, list_checkpoints
from gmi_drl.run.folder import LOCK, RunFolder


def test_what_is_created_is_read_back(tmp_path):
    folder = RunFolder(tmp_path / "a" / "run")
    folder.create()
    folder.write_setup(tiny_layout(), tiny_config())
    assert folder.read_setup() == (tiny_layout(), tiny_config())
    told = json.loads((folder.path / "versions.json").read_text())
    assert told["python"] == platform.python_version() and "torch" in told
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


def test_a_folder_with_anything_else_in_it_is_left_as_it_was(tmp_path):
    mine = {"layout.yaml": "task: ant", "config.yaml": "mine", "metrics.jsonl": "{}\n", "versions.json": "[1]"}
    for name, text in {**mine, "a thesis": "", "z": ""}.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=r"not empty and no run: it has a thesis, config.yaml.* and 1 more.*--run-dir"):
        RunFolder(tmp_path).create()
    assert {name: (tmp_path / name).read_text() for name in mine} == mine and len(list(tmp_path.iterdir())) == 6


@pytest.mark.parametrize("name", ["logs/mine.txt", "checkpoints/best/model", ".hidden"])
def test_folders_with_the_names_of_ours_are_foreign_unless_they_are_empty(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match=f"it has {name.split('/')[0]}: choose"):
        RunFolder(tmp_path).create()


def test_what_a_crash_leaves_before_the_first_file_is_begun_anew(tmp_path):
    folder = RunFolder(tmp_path)
    folder.create()
    with folder.lock():
        (tmp_path / ".versions.json.123.draft").write_text("{")  # killed while it was written
    folder.create()
    folder.write_setup(tiny_layout(), tiny_config())
    folder.layout_file.unlink()  # as if killed between the files
    folder.log_file(0).write_text("a log")
    folder.create()


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is not a run folder"):
        RunFolder(tmp_path).read_setup()


def test_a_folder_of_runs_names_them(tmp_path):
    for number in range(7):
        RunFolder(tmp_path / f"run{number}").create()
        RunFolder(tmp_path / f"run{number}").write_setup(tiny_layout(), tiny_config())
    with pytest.raises(UsageError, match=r"it holds runs, name one of them: run0, run1, .*run4 and 2 more$"):
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
        with pytest.raises(LayoutMismatchError, match=f"process {worker.pid} on .* is working there") as refused:
            folder.lock().__enter__()
        assert f"on {platform.node()} is" in str(refused.value)
    finally:
        worker.kill()
        worker.communicate()
    assert folder.read_state()["state"] == "died"
    with folder.lock():
        folder.write_state("done")
    assert folder.read_state()["state"] == "done"
    (tmp_path / "state.json").write_text("{}")
    assert folder.read_state()["state"] == "unknown"


def test_policies_of_a_run_that_is_working_are_not_removed(tmp_path):
    folder = RunFolder(tmp_path)
    folder.create()
    folder.write_setup(tiny_layout(), tiny_config())
    folder.policy("a").create()
    with folder.lock(), pytest.raises(LayoutMismatchError, match="is working there"):
        folder.create()
    assert folder.policy("a").checkpoints.is_dir()
    folder.create()
    assert not folder.policy("a").path.exists()


def test_the_lock_is_that_of_a_file_open_for_writing_as_nfs_wants(tmp_path):
    with RunFolder(tmp_path).lock():
        (descriptor,) = [
            int(link.name) for link in Path("/proc/self/fd").iterdir() if link.resolve() == tmp_path / ".lock"
        ]
        assert fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
        assert not os.get_inheritable(descriptor)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_folder_that_cannot_be_locked_is_refused(tmp_path):
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(MachineError, match=r"\.lock cannot be written"), RunFolder(path).lock():
            pass


def test_a_run_of_another_host_has_not_died_by_the_processes_of_this_one(tmp_path):
    folder, file = RunFolder(tmp_path), tmp_path / "state.json"
    folder.write_state("running")
    here = json.loads(file.read_text())
    assert here["host"] == platform.node() and folder.read_state() == here
    dead = here | {"pid": 2**22 + 1}  # more than Linux gives
    file.write_text(json.dumps(dead | {"host": "elsewhere"}))
    assert folder.read_state()["state"] == "running" and folder.read_state()["host"] == "elsewhere"
    del dead["host"]  # as written by version 0.1
    file.write_text(json.dumps(dead))
    assert folder.read_state() == dead | {"state": "died", "host": None}


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 100_000, '{"state": "running"}', "[]", "{", "null"),
        *('{"state": 5}', '{"state": "done", "message": [1]}', '{"state": "done", "host": {}}'),
    ],
)
def test_a_broken_state_is_unknown(tmp_path, text):
    (tmp_path / "state.json").write_text(text)
    assert RunFolder(tmp_path).read_state() == {"state": "unknown", "message": "", "host": None, "pid": None}


def test_an_error_inside_the_lock_stays_what_it_is(tmp_path):
    with pytest.raises(BlockingIOError, match="mine"), RunFolder(tmp_path).lock():
        raise BlockingIOError("mine")


def test_several_policies_go_on_from_the_newest_iteration_that_all_have_saved(tmp_path):
    folder = RunFolder(tmp_path / "run")

    def save(where, *iterations):
        for iteration in iterations:
            path = where.checkpoints / f"{iteration:06d}"
            path.mkdir(parents=True)
            (path / "checkpoint.json").write_text("{}")

    folder.create()
    assert folder.resumable() == [] and folder.learning == [folder]
    save(folder.policy("b"), 0, 4, 6)
    save(folder.policy("a"), 2, 4, 7)
    first, second = folder.learning
    assert (first, second) == (folder.policy("a"), folder.policy("b"))
    assert folder.resumable() == [first.checkpoints / "000004"]
    with pytest.raises(UsageError, match="holds a run already: continue it with `--resume` or"):
        folder.create()
    for one in folder.learning:
        drop_later(one.checkpoints, 4)
    assert [path.name for path in list_checkpoints(second.checkpoints)] == ["000000", "000004"]
    drop_later(first.checkpoints, 2)
    with pytest.raises(UsageError, match="holds a run already: choose another --run-dir"):
        folder.create()  # not `--resume`, which would say that nothing can be resumed
    save(alone := RunFolder(tmp_path / "alone"), 3, 5)
    assert alone.resumable() == [alone.checkpoints / "000003", alone.checkpoints / "000005"]


def test_a_run_lives_on_when_somebody_sets_the_clock(tmp_path, monkeypatch):
    folder, file = RunFolder(tmp_path), tmp_path / "state.json"
    folder.write_state("running")
    written = json.loads(file.read_text())
    monkeypatch.setattr("psutil.Process.create_time", lambda process: written["process_started_s"] + 5)
    assert folder.read_state()["state"] == "running"
    file.write_text(json.dumps(written | {"process_started_ticks": written["process_started_ticks"] + 1}))
    assert folder.read_state()["state"] == "died"


def test_a_state_of_an_earlier_version_is_known_by_the_time_of_its_process(tmp_path):
    folder, file = RunFolder(tmp_path), tmp_path / "state.json"
    folder.write_state("running")
    earlier = json.loads(file.read_text())
    del earlier["process_started_ticks"]
    for more, state in ((0, "running"), (5, "died")):
        file.write_text(json.dumps(earlier | {"process_started_s": earlier["process_started_s"] + more}))
        assert folder.read_state()["state"] == state


@pytest.mark.parametrize("was_there", [False, True])
def test_a_folder_goes_where_no_run_begins_unless_it_was_there_before(tmp_path, was_there):
    folder = RunFolder(tmp_path / "run", was_there=True) if was_there else RunFolder(tmp_path / "run")
    folder.create()
    (folder.path / LOCK).touch()
    with pytest.raises(KeyError), folder.kept_if_begun():
        raise KeyError
    assert folder.path.exists() == was_there and not (was_there and list(folder.path.iterdir()))
