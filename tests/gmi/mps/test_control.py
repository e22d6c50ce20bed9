import fcntl
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from gmi_drl.gmi.mps import control as control_module
from gmi_drl.gmi.mps import daemon
from gmi_drl.gmi.mps.control import ControlError, SilentError
from gmi_drl.gmi.mps.folder import control_of


@pytest.fixture
def control(fake_mps):
    """Of a daemon that runs."""
    talks = control_of(fake_mps.base, 0)
    daemon.start(talks, "GPU-a")
    return talks


def test_a_daemon_has_a_server_before_clients_come(control):
    assert len(control.servers()) == 1 and control.clients() == {} and not control.is_starting()
    assert control.pipes.stat().st_mode & 0o777 == control.logs.stat().st_mode & 0o777 == 0o700


def test_a_second_daemon_in_the_same_place_is_refused(control):
    own = os.environ | control.environment
    ended = subprocess.run(["nvidia-cuda-mps-control", "-d"], env=own, capture_output=True, text=True)
    assert ended.returncode == 1 and "already running" in ended.stdout


def test_a_command_that_mps_does_not_know_fails_with_its_words(control):
    with pytest.raises(ControlError, match="refuses 'sing' with exit code 1: Unknown command: sing"):
        control.ask("sing")
    with pytest.raises(ControlError, match="no server 12"):
        control.terminate(12, 13)


def test_a_server_that_is_not_ready_is_waited_for(fake_mps):
    fake_mps.habit("not_ready", 3)
    talks = control_of(fake_mps.base, 0)
    daemon.start(talks, "GPU-a")
    assert talks.ask(f"get_server_status {talks.servers()[0]}") == "ACTIVE"


def test_a_program_that_cannot_start_servers_does_it_when_a_client_comes(fake_mps):
    fake_mps.habit("says_start_server", "")
    talks = control_of(fake_mps.base, 0)
    daemon.start(talks, "GPU-a")
    assert talks.servers() == []


def test_an_answer_that_is_not_understood_is_shown(control, fake_mps):
    fake_mps.habit("says_get_server_list", "Server is busy")
    with pytest.raises(ControlError, match="no process ids: 'Server is busy'"):
        control.servers()


def test_an_answer_has_a_deadline(control, fake_mps):
    fake_mps.habit("slow", 0.2)
    assert control.servers()
    fake_mps.habit("hangs_at_get_server_list")
    with pytest.raises(SilentError, match="has not answered 'get_server_list' within"):
        control.ask("get_server_list", 0.3)


def test_a_daemon_that_answers_others_is_asked_again(control, fake_mps, monkeypatch):
    fake_mps.habit("busy", 3)
    assert len(control.servers()) == 1
    monkeypatch.setattr(control_module, "BUSY_S", 0.3)
    fake_mps.habit("busy", 10**6)
    with pytest.raises(ControlError, match="exit code 1: Cannot send command to MPS control daemon process"):
        control.servers()


def test_those_that_ask_at_once_take_turns(control, fake_mps, monkeypatch):
    monkeypatch.setattr(control_module, "BUSY_S", -1.0)  # none asks again
    monkeypatch.setattr(control_module, "LONGEST_TURN_S", 60.0)  # nor gives up its turn on a busy machine
    fake_mps.habit("slow", 0.05)
    with ThreadPoolExecutor(6) as pool:
        told = [*pool.map(lambda _: control.servers(), range(12))]
    assert all(len(servers) == 1 for servers in told)
    with (control.logs / control_module.LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert control.ask("get_server_list", 2.0), "half of a short deadline is left for the answer"
        monkeypatch.setattr(control_module, "LONGEST_TURN_S", 0.05)
        assert len(control.servers()) == 1, "a holder that is stopped is not waited for"


def test_nobody_answers_where_no_daemon_is(fake_mps):
    with pytest.raises(ControlError, match="Cannot find MPS control daemon"):
        control_of(fake_mps.base, 1).servers()


def test_a_program_that_is_not_there_is_named(fake_mps, monkeypatch):
    monkeypatch.setattr(control_module, "PROGRAM", "no-such-program")
    with pytest.raises(ControlError, match=r"cannot be run.*NVIDIA's driver"):
        control_of(fake_mps.base, 1).servers()
