import signal
import subprocess
import sys
import time
from contextlib import nullcontext, suppress

import psutil
import pytest
from conftest import children_of, environment, tiny_layout, two_cores

from gmi_drl import run_role
from gmi_drl.errors import GmiDiedError, GmiError, UsageError
from gmi_drl.files import dump_yaml
from tests.fork_server import SERVER

ROLES = """
import os, signal, subprocess, sys, time
import torch
import gmi_drl as GMI_DRL

class Adder(GMI_DRL.DRL_role):
    def GMI_run(self, rounds):
        data = torch.full((4,), float(self.GMI_id + 1))
        for _ in range(rounds):
            self.GMI_collective(data)
        return {"sum": data.tolist(), "cores": sorted(os.sched_getaffinity(0)), "threads": torch.get_num_threads()}

class Crasher(GMI_DRL.DRL_role):
    def GMI_run(self):
        if self.GMI_id == 1:
            raise ValueError("a bug in my role")
        self.GMI_collective(torch.zeros(2))

class Vanisher(GMI_DRL.DRL_role):
    def GMI_run(self):
        if self.GMI_id == 1:
            os._exit(7)
        self.GMI_collective(torch.zeros(2))

class Killed(GMI_DRL.DRL_role):
    def GMI_run(self, number):
        os.kill(os.getpid(), number)

class Measurer(GMI_DRL.DRL_role):
    def GMI_run(self, text):
        return len(text)

class Starter(GMI_DRL.DRL_role):
    def GMI_run(self, path, how):
        process = subprocess.Popen(["sleep", "600"])
        with open(path + ".draft", "w") as file:
            file.write(str(process.pid))
        os.rename(path + ".draft", path)
        if how == "fails":
            raise ValueError("a bug in my role")
        if how == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "goes on":
            time.sleep(600)

class Forker(GMI_DRL.DRL_role):
    def GMI_run(self, path):
        if not os.fork():
            time.sleep(30)
            open(path, "w").close()
        os._exit(7)
"""
LAUNCHER = "import sys; from gmi_drl import run_role; run_role(*sys.argv[1:3], {'path': sys.argv[3], 'how': 'goes on'})"


@pytest.fixture
def roles(tmp_path):
    path = tmp_path / "roles.py"
    path.write_text(ROLES)
    return path


@two_cores
def test_a_users_role_runs_on_every_gmi_on_its_own_cores(roles, tmp_path):
    layout_file = tmp_path / "layout.yaml"
    layout_file.write_text(dump_yaml(tiny_layout(2)))
    results = run_role(f"{roles}:Adder", layout_file, {"rounds": 2}, run_dir=tmp_path / "run")
    assert results[0]["sum"] == results[1]["sum"] == [6.0] * 4
    assert results[0]["threads"] == 1 and results[0]["cores"] != results[1]["cores"]


@two_cores
def test_a_bug_in_one_gmi_is_told_not_that_the_others_lost_a_peer(roles, tmp_path):
    with pytest.raises(GmiError, match=r"GMI 1: ValueError: a bug in my role(.|\n)*gmi-1.log"):
        run_role(f"{roles}:Crasher", tiny_layout(2), run_dir=tmp_path / "run")


@two_cores
def test_a_gmi_that_vanishes_is_named_with_its_exit_code(roles, tmp_path):
    with pytest.raises(GmiDiedError, match=r"GMI 1 \(process \d+\) exited with code 7") as raised:
        run_role(f"{roles}:Vanisher", tiny_layout(2), run_dir=tmp_path / "run")
    assert (raised.value.gmi_id, raised.value.exit_code_of_gmi) == (1, 7)


def test_a_role_that_does_not_exist_is_named(roles, tmp_path):
    with pytest.raises(GmiError, match="cannot be loaded"):
        run_role(f"{roles}:Missing", tiny_layout(1), run_dir=tmp_path / "run")


@pytest.mark.parametrize("how", ["is done", "fails", "is killed"])
def test_what_a_role_has_started_ends_with_it(roles, tmp_path, how):
    params = {"path": str(tmp_path / "pid"), "how": how}
    with nullcontext() if how == "is done" else pytest.raises(GmiError, match=r"a bug in my role|SIGKILL"):
        run_role(f"{roles}:Starter", tiny_layout(1), params, run_dir=tmp_path / "run")
    assert_gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_what_a_role_has_started_ends_with_the_launcher(roles, tmp_path, number):
    (tmp_path / "layout.yaml").write_text(dump_yaml(tiny_layout(1)))
    command = [sys.executable, "-c", LAUNCHER, f"{roles}:Starter", "layout.yaml", str(tmp_path / "pid")]
    launcher = SERVER.popen(command, gmis_are_forked=True, env=environment(), cwd=tmp_path, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 90
    while not (tmp_path / "pid").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    started = children_of(launcher.pid)
    launcher.send_signal(number)
    _, left = psutil.wait_procs([launcher, *started], timeout=60)
    for process in left:
        process.kill()
    assert len(started) == 3 and not left  # the GMI, what it has started, and the guard


def test_a_role_that_forks_and_dies_is_dead_at_once(roles, tmp_path):
    """The fork holds the GMI's end of the line, and would say after half a minute that it had been let live."""
    with pytest.raises(GmiError, match="exited with code 7"):
        run_role(f"{roles}:Forker", tiny_layout(1), {"path": str(tmp_path / "told")}, run_dir=tmp_path / "run")
    assert not (tmp_path / "told").exists()


def test_a_death_by_a_real_time_signal_is_named(roles, tmp_path):
    with pytest.raises(GmiDiedError, match=r"was killed by signal 35 \(SIGRTMIN\+1\)") as raised:
        run_role(f"{roles}:Killed", tiny_layout(1), {"number": signal.SIGRTMIN + 1}, run_dir=tmp_path / "run")
    assert (raised.value.gmi_id, raised.value.exit_code_of_gmi) == (0, -35)


def test_parameters_may_be_long(roles, tmp_path):
    text = "x" * 2**20
    assert run_role(f"{roles}:Measurer", tiny_layout(1), {"text": text}, run_dir=tmp_path / "run") == {0: len(text)}


def test_parameters_that_are_no_json_are_refused_before_anything_is_made(roles, tmp_path):
    with pytest.raises(UsageError, match=r"must be JSON .*: Object of type PosixPath"):
        run_role(f"{roles}:Measurer", tiny_layout(1), {"text": tmp_path}, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def assert_gone(pid):
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(60)


def test_a_role_may_lie_in_the_working_directory(roles, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_role("roles:Adder", tiny_layout(1), {"rounds": 1}, run_dir=tmp_path / "run")[0]["sum"] == [1.0] * 4
