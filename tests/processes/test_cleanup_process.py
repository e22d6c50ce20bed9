import os
import select
import signal
import subprocess
import sys

import pytest

from gmi_drl.processes.cleanup import start_cleanup_process

ECHO = """
import os, socket, sys
connection = socket.socket(fileno=0)
print(os.getsid(0) == os.getpid(), file=sys.stderr, flush=True)
connection.send(connection.recv(100) + sys.argv[1].encode() + os.read(int(sys.argv[2]), 100))
os.readlink(f"/proc/self/fd/{sys.argv[3]}") == "anon_inode:[pidfd]" or sys.exit(5)
"""


def test_it_is_connected_and_leads_a_session(tmp_path):
    reading, writing = os.pipe()
    os.write(writing, b" held")
    log = tmp_path / "log"
    with log.open("wb") as errors:
        command = [sys.executable, "-c", ECHO, " given ", str(reading)]
        process, connection = start_cleanup_process(command, errors=errors, holds=[reading])
    with process, connection:
        connection.send(b"sent")
        assert connection.recv(100) == b"sent given  held"
        assert process.wait(60) == 0 and log.read_text() == "True\n"
    os.close(reading)
    os.close(writing)


def test_it_sees_the_end_of_its_launcher_although_a_fork_keeps_the_connection():
    waits = "import select, sys; select.select([int(sys.argv[1])], [], [], 600)"
    launcher = f"""
import os, sys, time
from gmi_drl.processes.cleanup import start_cleanup_process
process, connection = start_cleanup_process([sys.executable, "-c", {waits!r}])
fork = os.fork()
if fork == 0:
    time.sleep(600)
print(process.pid, fork, flush=True)
sys.stdin.read()
os._exit(0)
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", launcher], **pipes) as launching:
        pid, fork = map(int, launching.stdout.readline().split())
        process = os.pidfd_open(pid)
        assert not select.select([process], [], [], 0.2)[0]
    assert select.select([process], [], [], 60)[0]
    os.close(process)
    os.kill(fork, signal.SIGKILL)


def test_nothing_is_left_open_where_it_cannot_start():
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        start_cleanup_process(["/no/such/program"])
    assert os.listdir("/proc/self/fd") == before
