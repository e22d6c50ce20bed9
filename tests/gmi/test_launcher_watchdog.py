"""The watchdog undoes what the notes say: here it removes a folder."""

import errno
import json
import os
import signal
import subprocess
import sys
from threading import Timer

import psutil
import pytest
from conftest import environment

from gmi_drl.errors import MachineError
from gmi_drl.gmi import launcher_watchdog
from gmi_drl.gmi.launcher_watchdog import Watchdog

UNDO = """
import os, shutil, time
from pathlib import Path

def undo(notes):
    time.sleep(notes.get("seconds", 0))
    if notes.get("fails"):
        raise RuntimeError("undo fails as it was told to")
    folder = Path(notes.get("folder", "/nowhere"))
    if folder.exists():
        (folder.parent / "undone_by").write_text(str(os.getpid()))
        shutil.rmtree(folder)
    return [f"{word}: remove it" for word in notes.get("left", [])]
"""
LAUNCHER = """
import os, select, signal, sys, time
from pathlib import Path
from gmi_drl.gmi.launcher_watchdog import Watchdog

signal.signal(signal.SIGINT, signal.default_int_handler)
dog = Watchdog("toy_undo:undo", Path(sys.argv[1]) / "log", undo_s=60)
dog.note("folder", sys.argv[1] + "/made")
Path(sys.argv[1], "made").mkdir()
fork = os.fork()
if not fork:
    time.sleep(600)
try:
    print(dog.pid, fork, flush=True)
    while not select.select([sys.stdin], [], [], 0.05)[0]:  # a signal just before a read is heard after it only
        pass
except KeyboardInterrupt:
    pass
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
print(dog.close(), flush=True)
"""


@pytest.fixture
def undo(install):
    install({}, {"toy_undo": UNDO})
    return "toy_undo:undo"


@pytest.fixture
def made(tmp_path):
    """What is to be undone."""
    folder = tmp_path / "made"
    folder.mkdir()
    return folder


def undone_by(made):
    return int((made.parent / "undone_by").read_text())


@pytest.fixture
def launch(undo, tmp_path):
    """A launcher that makes a folder, forks and ends somehow: its process, its watchdog, and the fork that lives on."""
    living = []

    def run(how):
        command = [sys.executable, "-c", LAUNCHER, str(tmp_path), how]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        launcher = subprocess.Popen(command, env=environment(), start_new_session=True, **pipes)
        living.extend(psutil.Process(int(pid)) for pid in launcher.stdout.readline().split())
        return launcher, *living

    yield run
    for process in living:
        if process.is_running():
            process.kill()


def test_the_watchdog_undoes_what_was_noted_and_ends(undo, made, tmp_path):
    kept = Watchdog(undo, tmp_path / "log", undo_s=60)
    kept.note("folder", str(made))
    kept.note("left", ["a thing"])
    assert kept.close() == ["a thing: remove it"]
    assert not made.exists() and undone_by(made) == kept.pid and not psutil.pid_exists(kept.pid)
    assert "a thing" in (tmp_path / "log").read_text()


def test_a_watchdog_whose_end_could_not_be_seen_is_ended(undo, tmp_path, monkeypatch):
    real, before = os.pidfd_open, psutil.Process().children()

    def full(pid):
        if pid != os.getpid():
            raise OSError(errno.EMFILE, "Too many open files")
        return real(pid)

    monkeypatch.setattr(os, "pidfd_open", full)
    with pytest.raises(MachineError, match=r"cannot be started as a watchdog \(.*Too many open files\): .*ulimit -n"):
        Watchdog(undo, tmp_path / "log", undo_s=60)
    assert psutil.Process().children() == before


def test_when_the_launcher_is_killed_the_watchdog_undoes(launch, made):
    made.rmdir()
    launcher, process, fork = launch("killed")
    launcher.stdin.close()
    launcher.wait(60)
    _, left = psutil.wait_procs([process], timeout=60)
    assert not left and not made.exists() and undone_by(made) == process.pid
    assert fork.is_running(), "a fork that keeps the connection open delays nothing"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_are_left_to_the_launcher(launch, made, number):
    made.rmdir()
    launcher, process, fork = launch("leaves")
    process.send_signal(number)
    launcher.send_signal(signal.SIGINT)
    assert launcher.stdout.readline() == "[]\n"
    launcher.stdin.close()
    assert launcher.wait(60) == 0 and undone_by(made) == process.pid and fork.is_running()
    assert not process.is_running()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_without_a_watchdog_that_answers_the_launcher_undoes(undo, made, tmp_path, monkeypatch, number):
    kept = Watchdog(undo, tmp_path / "log", undo_s=60)
    kept.note("folder", str(made))
    psutil.Process(kept.pid).send_signal(number)
    monkeypatch.setattr(launcher_watchdog, "ANSWER_S", 0.2)
    kept._undo_s, _ = 0.2, monkeypatch.setattr(launcher_watchdog, "SLACK_S", 0.0)
    with pytest.raises(MachineError, match=f"watchdog .process {kept.pid}. has ended or does not answer"):
        kept.note("more", 1)
    assert kept.close() == [] and not made.exists() and undone_by(made) == psutil.Process().pid


@pytest.fixture
def default_ctrl_c():
    """As Python has it: a command that was run in this process may have left its own handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_ctrl_c")
def test_ctrl_c_does_not_interrupt_the_launchers_undo(undo, made, tmp_path):
    kept = Watchdog(undo, tmp_path / "log", undo_s=60)
    kept.note("folder", str(made))
    kept.note("seconds", 1.0)
    psutil.Process(kept.pid).kill()
    Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        kept.close()
    assert not made.exists()


def test_an_undo_that_hangs_is_abandoned_with_a_traceback(undo, made, tmp_path):
    kept = Watchdog(undo, tmp_path / "log", undo_s=0.5)
    kept.note("folder", str(made))
    kept.note("seconds", 600)
    kept.notes["seconds"] = 0
    assert kept.close() == [] and undone_by(made) == psutil.Process().pid
    assert "Timeout" in (tmp_path / "log").read_text() and "toy_undo.py" in (tmp_path / "log").read_text()


def test_an_undo_that_fails_in_the_watchdog_is_tried_here(undo, made, tmp_path):
    kept = Watchdog(undo, tmp_path / "log", undo_s=60)
    kept.note("fails", True)
    with pytest.raises(RuntimeError, match="as it was told"):
        kept.close()
    assert "as it was told" in (tmp_path / "log").read_text()


def test_a_late_answer_is_not_taken_for_the_next_one(undo, made, tmp_path):
    kept = Watchdog(undo, tmp_path / "log", undo_s=60)
    kept._socket.send(json.dumps({"number": 0, "name": "unheard", "value": 1}).encode())
    kept.note("folder", str(made))
    assert kept.close() == [] and not made.exists()
