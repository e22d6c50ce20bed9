import subprocess
import sys

import pytest

from gmi_drl.errors import GmiError
from gmi_drl.roles.launcher.connection import MAX_BYTES, LauncherConnection, decode, encode, line_pair
from gmi_drl.roles.launcher.protocol import Done, Measure, Proved, Reduce, Report, Stop, Waits, said_by_gmi


@pytest.fixture
def ends():
    ours, theirs = line_pair()
    line = LauncherConnection(theirs.detach())
    yield ours, line
    ours.close()


def test_messages_stay_whole_and_in_order(ends):
    ours, line = ends
    for i in range(3):
        line.report(Report({"i": i}))
    assert [said_by_gmi(decode(ours.recv(MAX_BYTES))) for _ in range(3)] == [Report({"i": i}) for i in range(3)]


def test_words_are_read_without_waiting(ends):
    ours, line = ends
    assert line.words() == []
    said = [Measure(8, 0.1 + 0.2), Reduce("MPR-shm"), Stop()]
    for word in said:
        ours.send(encode(word))
    assert line.words() == said and line.words() == []


def test_what_comes_before_the_proof_is_kept(ends):
    ours, line = ends
    for word in (Stop(), Proved(), Measure(8, 0.5)):
        ours.send(encode(word))
    line.await_proof()
    assert line.await_words(600.0) == [Stop(), Measure(8, 0.5)] and line.words() == []


def test_a_proof_that_does_not_come_is_an_error(ends, monkeypatch):
    monkeypatch.setattr("gmi_drl.roles.launcher.connection.PROOF_S", 0.0)
    with pytest.raises(GmiError, match="has not proved within 0 s"):
        ends[1].await_proof()


def test_a_launcher_that_does_not_read_never_blocks_a_gmi(ends):
    _, line = ends
    for _ in range(5000):
        line.report(Report({"text": "x" * 1000}))


def test_a_message_too_long_is_an_error_not_a_torn_message(ends):
    with pytest.raises(GmiError, match="longer than"):
        ends[1].deliver(Done("y" * MAX_BYTES))


ORPHAN = """
import sys
from gmi_drl.roles.launcher.connection import Line
Line(int(sys.argv[1])).words()
print('still here')
"""


def test_a_gmi_leaves_when_its_launcher_is_gone():
    ours, theirs = line_pair()
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


def test_that_it_waits_is_told_once_in_a_while(ends, monkeypatch):
    ours, line = ends
    for _ in range(3):
        line.renew()
    monkeypatch.setattr("gmi_drl.roles.launcher.connection.RENEW_S", -1.0)
    line.renew()
    ours.setblocking(False)
    assert [said_by_gmi(decode(ours.recv(MAX_BYTES))) for _ in range(2)] == [Waits(), Waits()]
    with pytest.raises(BlockingIOError):
        ours.recv(MAX_BYTES)
