import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from unittest.mock import ANY

import psutil
import pytest
from conftest import children_of, environment, open_layout, tiny_config, tiny_layout, two_cores

from gmi_drl.errors import GmiError, GmiWarning
from gmi_drl.gmi import ProcessBackend
from gmi_drl.gmi.process import ProcessInstances
from gmi_drl.launch.job import Job
from gmi_drl.launch.processes.events import GMIMessage
from gmi_drl.launch.processes.gmi_handle import how_it_ended
from gmi_drl.launch.processes.gmi_processes import FIRST_MESSAGE_S, START_S, GMIProcesses
from gmi_drl.run.folder import RunFolder
from tests.fork_server import SERVER

ROLE = """
import time, warnings
warnings.simplefilter("always")
import gmi_drl as GMI_DRL

class Late(GMI_DRL.DRL_role):
    def GMI_run(self, fails):
        self.mgr.report({"number": 1})
        self.mgr.report({"number": 2})
        if fails:
            raise ValueError("a bug in my role")
        return "a result"

class Unequal(GMI_DRL.DRL_role):
    def GMI_run(self):
        if self.GMI_id == 0:
            raise ValueError("a bug in my role")
        for number in range(20):
            self.mgr.report({"number": number})
        return "a result"

class Warning_(GMI_DRL.DRL_role):
    def GMI_run(self):
        from gmi_drl.errors import GmiWarning
        for text in ("a sensor is odd", "a sensor is odd", "another is odd"):
            warnings.warn(text, GmiWarning)

class Riddling(GMI_DRL.DRL_role):
    def GMI_run(self, bytes_sent):
        self.mgr.launcher._socket.send(bytes_sent.encode())
        time.sleep(600)

class Hanging(GMI_DRL.DRL_role):
    def GMI_run(self):
        from gmi_drl.errors import PeerSilentError
        if self.GMI_id == 0:
            raise PeerSilentError("GMI 1 is silent")
        self.mgr.report({"number": 1})
        self.wait_for_ever()

    def wait_for_ever(self):
        time.sleep(600)

class Beating(GMI_DRL.DRL_role):
    def GMI_run(self):
        while True:
            time.sleep(0.1)
            self.mgr.report({"number": 1})
"""
LAUNCHER = """
import sys, time
from pathlib import Path
from gmi_drl.gmi import claimed
from gmi_drl.launch.job import Job
from gmi_drl.launch.open_layout import opened
from gmi_drl.launch.processes import gmi_processes
from gmi_drl.launch.processes.events import GMIMessage
from gmi_drl.run.folder import RunFolder
folder = RunFolder(Path(sys.argv[1]))
layout, config = folder.read_setup()
with (
    claimed([layout], "a test") as claim,
    opened(claim, Job(layout, config, folder, {0: sys.argv[2]}, 64), {}) as started,
):
    for event in started.events(silence_s=5):
        if isinstance(event, GMIMessage):
            gmi_processes.START_S = 5  # when it has started
            print("row", flush=True)
"""


@contextmanager
def ended_processes(tmp_path, **params):
    """A GMI that has ended before anything of what it said is read."""
    (tmp_path / "role.py").write_text(ROLE)
    folder, roles = RunFolder(tmp_path / "run"), {0: f"{tmp_path / 'role.py'}:Late"}
    folder.create()
    with open_layout(tiny_layout(1), tiny_config(), folder, roles, params, slot_bytes=64) as processes:
        assert processes._children[0].exit_code(120) == (1 if params.get("fails") else ANY)
        yield processes


def test_a_gmi_that_has_ended_is_heard_first(tmp_path):
    with ended_processes(tmp_path, fails=False) as processes:
        told = [event.message.row["number"] for event in processes.events() if isinstance(event, GMIMessage)]
    assert told == [1, 2] and processes.results == {0: "a result"}


def test_the_error_of_a_gmi_that_has_ended_is_told_not_its_exit_code(tmp_path):
    with (
        ended_processes(tmp_path, fails=True) as processes,
        pytest.raises(GmiError, match=r"^GMI 0: ValueError: a bug in my role") as failed,
    ):
        for _ in processes.events():
            pass
    assert str(failed.value).count("ValueError: a bug in my role") == 1, "the log ends with it, too"
    assert str(failed.value).endswith('raise ValueError("a bug in my role")')


@two_cores
def test_what_gmis_warn_of_is_told_once(tmp_path):
    (tmp_path / "role.py").write_text(ROLE)
    folder, role = RunFolder(tmp_path / "run"), f"{tmp_path / 'role.py'}:Warning_"
    folder.create()
    with (
        open_layout(tiny_layout(2), tiny_config(), folder, {0: role, 1: role}, {}, slot_bytes=64) as processes,
        pytest.warns(GmiWarning, match="odd") as told,
    ):
        for _ in processes.events():
            pass
    words = [str(warning.message).partition(": ") for warning in told]
    assert sorted(text for _, _, text in words) == ["a sensor is odd", "another is odd"]
    assert {name for name, _, _ in words} <= {"GMI 0", "GMI 1"}
    assert "a sensor is odd" in folder.log_file(0).read_text()


@two_cores
def test_what_others_have_said_is_heard_before_a_failure_ends_all(tmp_path):
    (tmp_path / "role.py").write_text(ROLE)
    folder, role, told = RunFolder(tmp_path / "run"), f"{tmp_path / 'role.py'}:Unequal", []
    folder.create()
    with open_layout(tiny_layout(2), tiny_config(), folder, {0: role, 1: role}, {}, slot_bytes=64) as processes:
        for gmi_id in (0, 1):
            processes._children[gmi_id].exit_code(120)
        with pytest.raises(GmiError, match=r"^GMI 0: ValueError: a bug in my role"):
            told.extend(event.message.row["number"] for event in processes.events() if isinstance(event, GMIMessage))
    assert told == list(range(20))


def test_a_backend_that_fails_at_the_end_keeps_nobody_alive(tmp_path, monkeypatch):
    def fail(instances, groups):
        raise RuntimeError("as it was told")

    (tmp_path / "role.py").write_text(ROLE)
    folder, roles = RunFolder(tmp_path / "run"), {0: f"{tmp_path / 'role.py'}:Beating"}
    folder.create()
    with (
        pytest.raises(RuntimeError, match="as it was told"),
        open_layout(tiny_layout(1), tiny_config(), folder, roles, {}, slot_bytes=64) as processes,
    ):
        leader = psutil.Process(processes._children[0].pid)
        monkeypatch.setattr(ProcessInstances, "release", fail)
        monkeypatch.setattr("gmi_drl.launch.processes.gmi_processes.GRACE_S", 0.1)
    assert not leader.is_running()


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ("hello", "Expecting value"),
        ("[" * 60_000, "it is nested too deeply"),
        ('{"kind": "Report", "row": 3}', "Report comes with row: dict"),
    ],
)
def test_a_gmi_that_is_not_parsed_is_named(tmp_path, sent, told):
    (tmp_path / "role.py").write_text(ROLE)
    folder, roles = RunFolder(tmp_path / "run"), {0: f"{tmp_path / 'role.py'}:Riddling"}
    folder.create()
    with (
        open_layout(tiny_layout(1), tiny_config(), folder, roles, {"bytes_sent": sent}, slot_bytes=64) as processes,
        pytest.raises(GmiError) as caught,
    ):
        for _ in processes.events():
            pass
    said = str(caught.value)
    assert said.startswith(f"GMI 0 has sent a malformed message, {told}")
    assert repr(sent.encode()[:200]) in said and "gmi-0.log" in said


def test_before_the_first_row_of_all_a_silence_may_be_long(tmp_path):
    layout = tiny_layout(1)
    with ProcessBackend().cut(layout) as instances:
        pass
    job = Job(layout, tiny_config(), RunFolder(tmp_path), {}, 64)
    processes = GMIProcesses(job, {}, instances, None, {}, {})  # nothing is started
    processes._check_silence(FIRST_MESSAGE_S - 1, silence_s=60)
    with pytest.raises(GmiError, match="no GMI has sent a message for 1201 s"):
        processes._check_silence(FIRST_MESSAGE_S + 1, silence_s=60)
    processes._has_reported = True
    processes._check_silence(START_S - 1, silence_s=60)
    with pytest.raises(GmiError, match="no GMI has sent a message for 121 s"):
        processes._check_silence(START_S + 1, silence_s=60)


def test_a_gmi_that_is_stopped_is_named_though_nobody_waits_for_it(tmp_path):
    (tmp_path / "role.py").write_text(ROLE)
    folder, roles = RunFolder(tmp_path / "run"), {0: f"{tmp_path / 'role.py'}:Beating"}
    folder.create()
    with open_layout(tiny_layout(1), tiny_config(), folder, roles, {}, slot_bytes=64) as processes:
        gmi = psutil.Process(processes._children[0].pid)
        with pytest.raises(GmiError, match=r"^GMI 0 was stopped \(SIGSTOP\) and did not go on within 1 s\n.*gmi-0.log"):
            for event in processes.events(silence_s=1):
                if isinstance(event, GMIMessage):
                    gmi.suspend()


def test_suspension_of_all_processes_is_no_timeout(tmp_path):
    """As when a container is frozen: the launcher's clock goes on meanwhile, but nobody could have spoken."""
    (tmp_path / "role.py").write_text(ROLE)
    folder = RunFolder(tmp_path / "run")
    folder.create()
    folder.write_setup(tiny_layout(1), tiny_config())
    command = [sys.executable, "-c", LAUNCHER, str(folder.path), f"{tmp_path / 'role.py'}:Beating"]
    with SERVER.popen(command, gmis_are_forked=True, env=environment(), stdout=subprocess.PIPE, text=True) as launcher:
        rows = iter(launcher.stdout)
        assert next(rows) == "row\n"
        gmi = next(child for child in children_of(launcher.pid) if "GMI 0" in " ".join(child.cmdline()))
        gmi.suspend()
        time.sleep(0.5)  # what it has said is read
        launcher.send_signal(signal.SIGSTOP)
        time.sleep(8)
        launcher.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        gmi.resume()
        heard = [next(rows, "") for _ in range(30)]  # more than were left in the pipe
        launcher.kill()
    psutil.wait_procs([gmi], timeout=60)
    assert heard[-1] == "row\n"


def test_how_a_gmi_ended_that_somebody_else_reaped_is_not_known(tmp_path):
    """As where the program's parent ignored SIGCHLD, which is inherited."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with ended_processes(tmp_path, fails=False) as processes:
            assert (
                how_it_ended(processes._children[0].exit_code(60))
                == "has ended with an unknown exit code (SIGCHLD is ignored here)"
            )
    finally:
        signal.signal(signal.SIGCHLD, before)


@two_cores
def test_a_gmi_that_hangs_writes_its_stacks_into_its_log(tmp_path):
    (tmp_path / "role.py").write_text(ROLE)
    folder, roles = RunFolder(tmp_path / "run"), dict.fromkeys((0, 1), f"{tmp_path / 'role.py'}:Hanging")
    folder.create()
    with (
        open_layout(tiny_layout(2), tiny_config(), folder, roles, {}, slot_bytes=64) as processes,
        pytest.raises(GmiError, match="GMI 0: GMI 1 is silent") as caught,
    ):
        for _ in processes.events():
            pass
    (note,) = caught.value.__notes__
    assert note.endswith(f"at the end of the logs in {folder.path / 'logs'}: GMI 1")
    assert "in wait_for_ever" in folder.log_file(1).read_text()
    assert "in wait_for_ever" not in folder.log_file(0).read_text()
