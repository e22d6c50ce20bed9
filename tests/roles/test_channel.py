import subprocess
import sys

import pytest

from gmi_drl.errors import GmiError
from gmi_drl.roles.channel import MAX_BYTES, Channel, channel_pair, decode, encode


@pytest.fixture
def line():
    ours, theirs = channel_pair()
    channel = Channel(theirs.detach())
    yield ours, channel
    ours.close()


def test_messages_stay_whole_and_in_order(line):
    ours, channel = line
    for i in range(3):
        channel.report({"i": i})
    assert [decode(ours.recv(MAX_BYTES))["i"] for _ in range(3)] == [0, 1, 2]


def test_words_are_read_without_waiting(line):
    ours, channel = line
    assert channel.words() == []
    ours.send(encode({"word": "hello"}))
    ours.send(encode({"word": "stop"}))
    assert channel.words() == ["hello", "stop"]


def test_a_launcher_that_does_not_read_never_blocks_a_gmi(line):
    _, channel = line
    for _ in range(5000):
        channel.report({"row": "x" * 1000})


def test_a_message_too_long_is_an_error_not_a_torn_message(line):
    with pytest.raises(GmiError, match="longer than"):
        line[1].deliver({"x": "y" * MAX_BYTES})


ORPHAN = "import sys; from gmi_drl.roles.channel import Channel; Channel(int(sys.argv[1])).words(); print('still here')"


def test_a_gmi_leaves_when_its_launcher_is_gone():
    ours, theirs = channel_pair()
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
