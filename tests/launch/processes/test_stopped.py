import subprocess
import sys
import time

import psutil
import pytest

from gmi_drl.launch.processes import stopped
from gmi_drl.launch.processes.stopped import Stopped, is_stopped


@pytest.fixture
def sleepers():
    processes = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) for _ in range(2)]
    yield [psutil.Process(process.pid) for process in processes]
    for process in processes:
        process.kill()
        process.wait()


def stop(process):
    process.suspend()
    deadline = time.monotonic() + 60
    while not is_stopped(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)


def test_who_is_stopped_for_too_long_is_found(sleepers, monkeypatch):
    monkeypatch.setattr(stopped, "LOOK_S", 0.0)
    pids, found = dict(enumerate(process.pid for process in sleepers)), Stopped()
    assert found.longer_than(0.0, pids) is None, "nobody is stopped"
    stop(sleepers[1])
    assert found.longer_than(0.1, pids) is None, "not for long"
    time.sleep(0.2)
    assert found.longer_than(0.1, pids) == 1
    sleepers[1].resume()
    deadline = time.monotonic() + 60
    while is_stopped(sleepers[1].pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found.longer_than(0.1, pids) is None
    stop(sleepers[1])
    assert found.longer_than(0.1, pids) is None, "it counts anew"


def test_who_has_ended_is_not_stopped(sleepers):
    stop(sleepers[0])
    sleepers[0].kill()
    sleepers[0].wait(60)
    assert not is_stopped(sleepers[0].pid)
