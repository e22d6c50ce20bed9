import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import count

import psutil
import pytest
from conftest import environment, open_descriptors

from gmi_drl.errors import MachineError
from gmi_drl.launch.processes import reaper

LAUNCHER = """
import os, signal, subprocess, sys, time
from gmi_drl.launch.processes.reaper import Reaper
reaper = Reaper()
watched, forgotten = (subprocess.Popen(["sleep", "600"], process_group=0, stdout=sys.stderr) for _ in range(2))
for process in (watched, forgotten):
    reaper.watch(process.pid)
reaper.forget(forgotten.pid)
child = subprocess.Popen(["sleep", "600"], stdout=sys.stderr)
reaper.watch_process(child.pid)
fork = os.fork()
if not fork:
    time.sleep(600)
print(watched.pid, child.pid, forgotten.pid, fork, reaper._process.pid, flush=True)
sys.stdin.readline()
if sys.argv[1] == "robbed of its reapers":
    for _ in range(2):
        killed = reaper._process
        killed.kill()
        while reaper._process is killed:
            time.sleep(0.05)
    reaper._lock.acquire()  # the other one has been told all
if sys.argv[1] != "leaves":
    os.kill(os.getpid(), signal.SIGKILL)
reaper.close()
"""


@pytest.fixture
def launch(tmp_path):
    """Let a launcher end: a group and a process that are watched, a group that was, a fork of it, and the reaper."""
    started = []

    def run(how):
        command = [sys.executable, "-c", LAUNCHER, how]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with (tmp_path / "errors").open("w") as errors:
            launcher = subprocess.Popen(command, env=environment(), stderr=errors, **pipes)
        started.extend(psutil.Process(int(pid)) for pid in launcher.stdout.readline().split())
        launcher.stdin.write("go on\n")
        launcher.stdin.close()
        launcher.wait(60)
        return started

    yield run
    for process in started:
        if process.is_running():
            process.kill()


def test_what_is_watched_ends_with_a_launcher_that_is_killed(launch):
    """Even though a fork of it still holds its end of the line."""
    watched, child, forgotten, fork, reaper = launch("dies")
    _, left = psutil.wait_procs([watched, child, reaper], timeout=60)
    assert not left and forgotten.is_running() and fork.is_running()


def test_closed_reaper_kills_nothing(launch):
    watched, child, forgotten, _, reaper = launch("leaves")
    _, left = psutil.wait_procs([reaper], timeout=60)
    assert not left and watched.is_running() and child.is_running() and forgotten.is_running()


def test_killed_reaper_is_replaced_and_warned_of_once(launch, tmp_path):
    watched, child, forgotten, _, reaper = launch("robbed of its reapers")
    _, left = psutil.wait_procs([watched, child, reaper], timeout=60)
    assert not left and forgotten.is_running()
    assert (tmp_path / "errors").read_text().count(
        f"the reaper (process {reaper.pid}) was killed and is replaced by another, which ends"
    ) == 1


def test_a_process_is_known_by_its_descriptor_and_not_by_a_number_that_another_one_may_have():
    launcher, ended, watched, other = (subprocess.Popen(["sleep", "600"]) for _ in range(4))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    descriptors = [os.pidfd_open(process.pid) for process in (launcher, ended, watched)]
    ended.kill()
    ended.wait()
    try:
        with ours, theirs:
            command = [sys.executable, "-I", "-S", reaper.__file__, str(descriptors[0])]
            watching = subprocess.Popen(command, stdin=theirs, pass_fds=descriptors[:1])
            for process in descriptors[1:]:
                socket.send_fds(ours, [f"={other.pid}".encode()], [process])
            launcher.kill()
            assert watching.wait(60) == 0 and watched.wait(60) == -9
        assert other.poll() is None
    finally:
        for process in (launcher, watched, other):
            process.kill()
            process.wait()
        for descriptor in descriptors:
            os.close(descriptor)


def test_a_folder_is_removed_with_all_that_comes_meanwhile(tmp_path):
    folder, over = tmp_path / "folder", threading.Event()
    folder.mkdir()

    def fill():
        for number in count():
            with suppress(OSError):
                (folder / str(number)).touch()
            if over.wait(0.001):
                return

    writer = threading.Thread(target=fill)
    writer.start()
    threading.Timer(0.3, over.set).start()
    reaper.remove(bytes(folder))
    writer.join()
    assert not folder.exists()


def test_a_reaper_that_cannot_be_started_is_told_with_the_remedy(monkeypatch):
    before = open_descriptors()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    told = r"^/nowhere/python cannot be started as the reaper, .*No such file.*: install"
    with pytest.raises(MachineError, match=told):
        reaper.Reaper()
    assert open_descriptors() == before
