import os
import subprocess
import sys
from fcntl import F_DUPFD_CLOEXEC, fcntl
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

import pytest

from gmi_drl.errors import GmiError
from gmi_drl.roles.launcher.connection import MAX_BYTES, LauncherConnection, decode, encode, socket_pair
from gmi_drl.roles.launcher.protocol import (
    Done,
    Measure,
    Proved,
    Reduce,
    Report,
    Stop,
    Waits,
    parse_message_to_launcher,
)


@pytest.fixture
def ends():
    ours, theirs = socket_pair()
    launcher = LauncherConnection(theirs.detach())
    yield ours, launcher
    ours.close()


def test_messages_stay_whole_and_in_order(ends):
    ours, launcher = ends
    for i in range(3):
        launcher.report(Report({"i": i}))
    received = [parse_message_to_launcher(decode(ours.recv(MAX_BYTES))) for _ in range(3)]
    assert received == [Report({"i": i}) for i in range(3)]


def test_messages_are_read_without_waiting(ends):
    ours, launcher = ends
    assert launcher.messages() == []
    sent = [Measure(8, 0.1 + 0.2), Reduce("MPR-shm"), Stop()]
    for message in sent:
        ours.send(encode(message))
    assert launcher.messages() == sent and launcher.messages() == []


def test_messages_before_the_proof_are_kept(ends):
    ours, launcher = ends
    for message in (Stop(), Proved(), Measure(8, 0.5)):
        ours.send(encode(message))
    launcher.await_proof()
    assert launcher.await_messages(600.0) == [Stop(), Measure(8, 0.5)] and launcher.messages() == []


def test_a_proof_that_does_not_come_is_an_error(ends, monkeypatch):
    monkeypatch.setattr("gmi_drl.roles.launcher.connection.PROOF_S", 0.0)
    with pytest.raises(GmiError, match="has not proved within 0 s"):
        ends[1].await_proof()


def test_a_launcher_that_does_not_read_never_blocks_a_gmi(ends):
    _, launcher = ends
    for _ in range(5000):
        launcher.report(Report({"text": "x" * 1000}))


def test_a_message_too_long_is_an_error_not_a_torn_message(ends):
    with pytest.raises(GmiError, match="longer than"):
        ends[1].deliver(Done("y" * MAX_BYTES))


ORPHAN = """
import sys
from gmi_drl.roles.launcher.connection import LauncherConnection
LauncherConnection(int(sys.argv[1])).messages()
print('still here')
"""


def test_a_gmi_leaves_when_its_launcher_is_gone():
    ours, theirs = socket_pair()
    ours.close()
    descriptor = theirs.fileno()
    run = subprocess.run(
        [sys.executable, "-c", ORPHAN, str(descriptor)],
        pass_fds=[descriptor],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1 and run.stdout == b"" and run.stderr == b""


def test_waiting_is_reported_once_in_a_while(ends, monkeypatch):
    ours, launcher = ends
    for _ in range(3):
        launcher.renew()
    monkeypatch.setattr("gmi_drl.roles.launcher.connection.RENEW_S", -1.0)
    launcher.renew()
    ours.setblocking(False)
    assert [parse_message_to_launcher(decode(ours.recv(MAX_BYTES))) for _ in range(2)] == [Waits(), Waits()]
    with pytest.raises(BlockingIOError):
        ours.recv(MAX_BYTES)


def test_a_descriptor_beyond_those_that_select_takes_is_waited_for():
    ours, theirs = socket_pair()
    soft, hard = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        high = fcntl(theirs.fileno(), F_DUPFD_CLOEXEC, 2000)
        launcher = LauncherConnection(high)
        ours.send(encode(Stop()))
        assert launcher.await_messages(600.0) == [Stop()] and launcher.await_messages(0.0) == []
        os.close(high)
    finally:
        setrlimit(RLIMIT_NOFILE, (soft, hard))
        ours.close()
        theirs.close()
