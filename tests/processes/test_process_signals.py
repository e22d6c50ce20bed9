"""What signals do to processes that leave them to their launcher; real processes, real signals."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import environment

from gmi_drl.processes.signals import held_back

WORKER = """
import os, signal, subprocess, sys, time
from gmi_drl.processes.signals import leave_to_launcher
leave_to_launcher()
reading, writing = os.pipe()
if not (fork := os.fork()):
    os.write(writing, b"runs")  # a signal before its handlers are reset would be swallowed
    time.sleep(600)
os.read(reading, 4)
child = subprocess.Popen(["sleep", "600"])
for number in (signal.SIGTERM, signal.SIGHUP):
    os.kill(os.getpid(), number)
for pid in (child.pid, fork):
    os.kill(pid, signal.SIGTERM)
print(-child.wait(), os.WTERMSIG(os.waitpid(fork, 0)[1]), flush=True)
sys.stdin.readline()
"""


def test_a_worker_stays_and_what_it_starts_ends_by_the_signals_that_end_a_run():
    with held_back():
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # while the interpreter starts
        worker.send_signal(number)
    assert worker.stdout.readline().split() == [str(int(signal.SIGTERM))] * 2
    worker.communicate("go on\n", timeout=60)
    assert worker.returncode == 0


def test_what_was_ignored_before_stays_ignored():
    """As `nohup` wants it, for all that is started."""
    script = "from gmi_drl.processes.signals import *; leave_to_launcher(); print(getsignal(SIGHUP) is SIG_IGN)"
    run = subprocess.run(["nohup", sys.executable, "-c", script], env=environment(), capture_output=True, timeout=60)
    assert run.stdout == b"True\n", run.stderr


@pytest.mark.parametrize("has_threads", [False, True])
def test_signals_that_were_held_back_come_afterwards(has_threads):
    """The kernel gives a signal to any thread that does not block it, Python calls its handler in the main one."""
    heard, is_over = [], threading.Event()
    other = threading.Thread(target=is_over.wait)
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    if has_threads:
        other.start()
    try:
        with held_back():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)
            assert heard == []
        assert heard == [signal.SIGTERM]
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, before)
        is_over.set()
