import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from gmi_drl.gmi.inventory import allowed_cores, core_load
from gmi_drl.gmi.inventory.core_load import CoreLoad, busy_s, own_s

BURN = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"


def test_what_this_process_and_its_children_take_is_not_that_of_others(monkeypatch):
    """Whatever else runs on this machine: the kernel's clock of the cores is that of this process alone."""
    monkeypatch.setattr(core_load, "busy_s", lambda cores: core_load.own_s())
    load = CoreLoad(allowed_cores())
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert load.others() == pytest.approx(0, abs=0.1)


def test_what_others_take_is_a_share_of_the_cores(monkeypatch):
    monkeypatch.setattr(core_load, "own_s", lambda: 0.0)
    now = [100.0]
    monkeypatch.setattr(core_load, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(core_load, "busy_s", lambda cores: now[0] * len(cores) / 2)
    load = CoreLoad({0, 1, 2})
    now[0] += 3.0
    assert load.others() == pytest.approx(0.5)


def test_a_process_of_others_is_named(monkeypatch):
    """One that this process has not started: its parent has ended."""
    for name, value in (("SHOWN", 10**6), ("WORTH_NAMING", 1e-6)):  # on however busy a machine
        monkeypatch.setattr(core_load, name, value)
    spin = "while True: pass"
    apart = "stdin=-3, stdout=-3, stderr=-3"  # else our pipes would stay open
    orphan = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {spin!r}], {apart}).pid)"
    load = CoreLoad(allowed_cores())
    pid = subprocess.run([sys.executable, "-c", orphan], capture_output=True, text=True, check=True).stdout.strip()
    try:
        deadline = time.monotonic() + 60
        while f"(process {pid} of " not in load.takers():
            assert time.monotonic() < deadline, "not named"
            time.sleep(0.1)
    finally:
        os.kill(int(pid), signal.SIGKILL)


@pytest.mark.parametrize(
    ("ours_s", "told"),
    [
        (7.0, ", most of it this run's own: use fewer GMIs"),
        (1.0, ", most of it other programs, such as sshd 6 %: end other programs or wait for them, or use fewer GMIs"),
        (4.0, ": end other programs or wait for them, or use fewer GMIs"),
    ],
)
def test_a_load_is_that_of_others_only_if_they_take_most(monkeypatch, ours_s, told):
    now = {"busy": 100.0, "ours": 0.0}

    def passes(seconds):
        now["busy"] += 8.0
        now["ours"] += ours_s

    monkeypatch.setattr(os, "getloadavg", lambda: (64.0, 1.0, 1.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(core_load, "time", SimpleNamespace(monotonic=time.monotonic, sleep=passes))
    monkeypatch.setattr(core_load, "busy_s", lambda cores: now["busy"])
    monkeypatch.setattr(core_load, "own_s", lambda: now["ours"])
    monkeypatch.setattr(CoreLoad, "takers", lambda self: "sshd 6 %")
    assert core_load.overload() == "a load average of 64.0 on 16 cores" + told


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_the_time_of_children_is_ours(is_waited_for):
    before = own_s()
    code = BURN if is_waited_for else BURN + "\nprint(1, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.wait(60) if is_waited_for else child.stdout.readline()
        assert own_s() - before >= 0.45
        child.stdin.close()


def test_the_time_of_cores_passes_with_work():
    cores = os.sched_getaffinity(0)
    before = busy_s(cores)
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
    assert busy_s(cores) - before >= 0.2 and busy_s(set()) == 0  # the kernel samples: it may miss a part
