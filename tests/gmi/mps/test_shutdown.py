import os
import signal
import subprocess
import sys

import pytest

from gmi_drl.gmi.mps import shutdown
from gmi_drl.gmi.mps.folder import control_of
from gmi_drl.gmi.mps.shutdown import Patience, drains_by, end_clients, take_away

DRAINS = """
import os, signal, sys, time
def drain(number, frame):
    signal.signal(number, signal.SIG_IGN)
    time.sleep(1)
    os._exit(7)
signal.signal(signal.SIGTERM, drain if sys.argv[1] == "drains" else signal.SIG_DFL)
print(flush=True)
time.sleep(600)
"""


@pytest.fixture
def started(tmp_path):
    """Start a process with the mark of a folder, which drains for a second or not at all."""
    processes = []

    def start(kind):
        environment = os.environ | control_of(tmp_path, 0).environment
        command = [sys.executable, "-c", DRAINS, kind]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
        processes[-1].stdout.readline()
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_client_that_drains_is_given_its_time(started, tmp_path):
    process = started("drains")
    end_clients(tmp_path, [], Patience())
    assert process.wait(60) == 7


def test_a_client_that_is_stopped_is_not_waited_for(started):
    process = started("drains")
    assert drains_by(process.pid) == signal.SIGTERM
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    assert drains_by(process.pid) == 0


class Silent:
    """A daemon without clients, which notes how long it may take to say so."""

    def __init__(self):
        self.deadlines = []

    def clients(self, deadline_s):
        self.deadlines.append(deadline_s)
        return {}


def test_a_daemon_is_asked_again_within_what_is_left_of_its_time(started, tmp_path):
    process, patient, hasty = started("deaf"), Silent(), Silent()
    take_away(tmp_path, [patient], lambda: [process.pid], Patience(take_s=500.0, late_s=50.0))
    take_away(tmp_path, [hasty], lambda: [process.pid], Patience(take_s=0.0))
    first, second = patient.deadlines
    assert 50.0 < first <= 500.0 and 0.0 < second <= 50.0 and len(hasty.deadlines) == 1


def test_what_fails_on_the_way_keeps_nobody_alive(started, tmp_path, monkeypatch):
    def fail(*given):
        raise RuntimeError("as it was told")

    monkeypatch.setattr(shutdown, "take_away", fail)
    process = started("deaf")
    with pytest.raises(RuntimeError, match="as it was told"):
        shutdown.undo({"folder": str(tmp_path)})
    assert process.wait(60) == -9


def test_the_watchdog_has_more_time_than_all_steps_take():
    seconds = Patience(drain_s=1, take_s=2, quit_s=3, leave_s=4, term_s=5, killed_s=6)
    assert seconds.undo_s > 1 + 2 + 3 + 4 + 5 + 6 + 6
