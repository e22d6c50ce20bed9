"""Runs of GMIs that are clients of MPS, against stand-ins for it and for CUDA, however they end."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from conftest import environment

from gmi_drl import run_role
from gmi_drl.errors import LayoutMismatchError
from gmi_drl.files import dump_yaml
from gmi_drl.gmi.claims import claims_folder, locked
from gmi_drl.gmi.mps import daemon
from gmi_drl.gmi.mps.folder import Process, control_of
from gmi_drl.layout.layout import GMI, Device, Layout

ROLES = Path(__file__).parent / "mps_roles.py"
ROLE = f"{ROLES}:Works"
LAUNCHER = """
import signal, sys
from gmi_drl import run_role
from gmi_drl.gmi.mps.backend import MpsBackend
from gmi_drl.gmi.mps.shutdown import Patience
from gmi_drl.launch import processes
if sys.argv[5] == "still":  # it is waited for in vain
    processes.DRAIN_S, MpsBackend.patience = 1.0, Patience(drain_s=1.0)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets jobs in the background ignore it
run_role(sys.argv[1], sys.argv[2], {"folder": sys.argv[4], "stands_still": sys.argv[5] == "still"}, run_dir=sys.argv[3])
"""


def layout(gmis=2):
    parts = tuple(GMI(id=i, num_env=1, cores=(0,)) for i in range(gmis))
    return Layout(backend="mps", share_cores=True, devices=(Device(kind="gpu", gmis=parts),))


@pytest.fixture
def launch(fake_mps, tmp_path):
    """Start a launcher with two GMIs that work, or stand still; it is ended with the test."""
    running = []

    def start(kind="works", role="Works"):
        plan, told = tmp_path / "layout.yaml", tmp_path / "told"
        plan.write_text(dump_yaml(layout()))
        told.mkdir()
        command = [sys.executable, "-c", LAUNCHER, f"{ROLES}:{role}", str(plan), str(tmp_path / "run"), str(told), kind]
        running.append(subprocess.Popen(command, env=environment(), start_new_session=True, stderr=subprocess.DEVNULL))
        deadline = time.monotonic() + 120
        while len(list(told.glob("works-*"))) < 2:
            assert running[0].poll() is None and time.monotonic() < deadline, fake_mps.log()
            time.sleep(0.05)
        return running[0]

    yield start
    for process in running:
        process.kill()
        process.wait()


def wait_until_nothing_is_left(fake_mps):
    deadline = time.monotonic() + 120
    while left := fake_mps.left():
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert not [line for line in fake_mps.log() if "harmed" in line]


def test_a_run_is_attached_works_and_leaves_nothing(fake_mps, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1M")
    assert run_role(ROLE, layout(), {"seconds": 0.2}, run_dir=tmp_path / "run") == {0: 0, 1: 1}
    wait_until_nothing_is_left(fake_mps)
    assert [line.split()[2:] for line in fake_mps.log() if line.startswith("client")] == [["none", "none"]] * 2


def test_a_run_whose_gmis_do_not_attach_is_refused_before_roles_begin(fake_mps, tmp_path):
    fake_mps.habit("attaches_nobody")
    fake_mps.habit("slow", 0.3)
    with pytest.raises(LayoutMismatchError, match=r"GMI . .* computes on its GPU without MPS"):
        run_role(ROLE, layout(), {"folder": str(tmp_path)}, run_dir=tmp_path / "run")
    assert not list(tmp_path.glob("works-*"))
    wait_until_nothing_is_left(fake_mps)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_clients_drain_however_the_launcher_ends(fake_mps, launch, number):
    fake_mps.habit("slow_synchronize", 1)
    launch().send_signal(number)
    wait_until_nothing_is_left(fake_mps)
    assert not [line for line in fake_mps.log() if "terminated" in line]


def test_a_role_that_is_done_before_the_daemon_answers_is_done(fake_mps, tmp_path):
    fake_mps.habit("slow", 1.0)
    assert run_role(ROLE, layout(1), {"seconds": 0.0}, run_dir=tmp_path / "run") == {0: 0}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_clients_that_do_not_drain_are_terminated_first(fake_mps, launch, number):
    launch("still").send_signal(number)
    wait_until_nothing_is_left(fake_mps)
    assert sum("terminated" in line for line in fake_mps.log()) == 2


def test_devices_are_held_until_the_watchdog_has_ended_all(fake_mps, launch):
    fake_mps.habit("slow_synchronize", 1)
    launcher = launch()
    launcher.kill()
    launcher.wait(60)
    devices = list(claims_folder().glob("gpu-*")) + list(claims_folder().glob("core-*"))
    seen = 0
    while held := [locked(device) for device in devices]:
        if not fake_mps.left():
            break
        assert any(held[:1]) and any(held[1:])
        seen += 1
    assert seen


def test_what_gmis_have_started_without_a_trace_of_mps_ends_with_them(fake_mps, launch, tmp_path):
    launch(role="StartsOthers").kill()
    wait_until_nothing_is_left(fake_mps)
    children = [int(path.name.partition("-")[2]) for path in (tmp_path / "told").glob("child-*")]
    assert len(children) == 2
    assert not [pid for pid in children if Process.of(pid).lives()]


def test_a_run_ends_in_order_without_its_watchdog(fake_mps, launch):
    launcher = launch()
    (watchdog,) = [
        child
        for child in psutil.Process(launcher.pid).children()
        if "gmi_drl.gmi.launcher_watchdog" in str(child.cmdline())
    ]
    watchdog.kill()
    launcher.send_signal(signal.SIGINT)
    launcher.wait(120)
    wait_until_nothing_is_left(fake_mps)


def test_gmis_share_a_gpu_plainly_although_somebodys_daemon_runs(fake_mps, tmp_path, monkeypatch):
    somebodys = control_of(fake_mps.base, 0)
    daemon.start(somebodys, "GPU-a")
    for name, value in somebodys.environment.items():
        monkeypatch.setenv(name, value)
    plain = layout().model_copy(update={"backend": "process"})
    assert run_role(ROLE, plain, {"seconds": 0.1}, run_dir=tmp_path / "run") == {0: 0, 1: 1}
    assert not [line for line in fake_mps.log() if line.startswith("client")]
