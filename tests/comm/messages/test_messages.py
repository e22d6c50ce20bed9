"""Messages between two ends of this process, which are quick, and between processes, which die and stop."""

import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from conftest import open_descriptors

from gmi_drl.comm.memory.mailbox_memory import PIECE_BYTES, create_mailboxes
from gmi_drl.comm.messages.messages import Messages
from gmi_drl.errors import GmiError, MachineError, PeerDiedError, PeerSilentError, UsageError
from tests.fork_server import SERVER

WORKER = Path(__file__).with_name("messages_worker.py")
MOST_MESSAGES = 8
BIG = 5 * PIECE_BYTES


@pytest.fixture
def mailboxes():
    mailboxes = create_mailboxes(range(2), MOST_MESSAGES, most_bytes=2 * PIECE_BYTES)
    yield mailboxes
    mailboxes.close()


def opened(mailboxes, gmi_id=0, hang_s=60):
    return Messages(mailboxes, gmi_id, hang_s)


@contextmanager
def worker(mailboxes, deed):
    """GMI 1 as a process of its own."""
    descriptors = mailboxes.descriptors
    line = [sys.executable, str(WORKER), deed, *map(str, descriptors)]
    process = SERVER.popen(line, pass_fds=descriptors, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_a_tree_arrives_as_it_was_when_it_was_sent(mailboxes):
    here, there = opened(mailboxes), opened(mailboxes, 1)
    weight = torch.arange(6.0).view(2, 3)
    here.send({"weight": weight.t(), "step": (3, None), "none": torch.empty(0, 4), "alone": torch.tensor(True)}, 1)
    weight.zero_()
    came = there.recv(0, "cpu")
    assert came["weight"].tolist() == [[0, 3], [1, 4], [2, 5]] and came["step"] == (3, None)
    assert came["none"].shape == (0, 4) and came["alone"].item() is True
    for end in (here, there):
        end.close()


def test_a_message_too_many_waits_until_one_is_read(mailboxes):
    here, there = opened(mailboxes, hang_s=0.1), opened(mailboxes, 1)
    sendings = [here.send(number, 1) for number in range(MOST_MESSAGES)]
    with pytest.raises(PeerSilentError, match=r"GMI 1 \(process \d+\) lives but has not read a message for 0.1 s"):
        here.send("too many", 1)
    assert not any(sending.done() for sending in sendings)
    with pytest.raises(PeerSilentError, match="GMI 1"):
        sendings[0].wait()
    assert there.recv(0) == 0
    sendings[0].wait()
    assert [sending.done() for sending in sendings] == [True] + [False] * (MOST_MESSAGES - 1)
    last = here.send("not too many", 1)
    assert [there.recv(0) for _ in range(MOST_MESSAGES)] == [*range(1, MOST_MESSAGES), "not too many"]
    assert last.done()


def test_who_waits_is_woken(mailboxes, monkeypatch):
    monkeypatch.setattr("gmi_drl.comm.memory.notify._NAP_S", nap_s := 30.0)  # longer than anything here takes
    started = time.monotonic()
    here, there = opened(mailboxes), opened(mailboxes, 1)
    for _ in range(MOST_MESSAGES):
        here.send("early", 1)
    sent = []
    sender = threading.Thread(target=lambda: sent.append(here.send("late", 1)))
    sender.start()
    time.sleep(0.1)
    assert not sent
    assert [there.recv(0) for _ in range(MOST_MESSAGES + 1)][-1] == "late"
    sender.join()
    came = []
    receiver = threading.Thread(target=lambda: came.append(there.recv(0)))
    receiver.start()
    time.sleep(0.1)
    assert not came
    here.send("woken", 1)
    receiver.join()
    assert came == ["woken"] and time.monotonic() - started < nap_s, "nobody slept it out"


def test_between_processes_order_is_kept_and_big_messages_go(mailboxes):
    with worker(mailboxes, "echo") as process:
        here = opened(mailboxes)
        for number in range(100):
            tensor = torch.full((BIG,) if number % 25 == 1 else (number,), number, dtype=torch.uint8)
            here.send([number, tensor], 1)
            came = here.recv(1)
            assert came["pid"] == process.pid and came["echo"][0] == number and came["echo"][1].equal(tensor)
        here.send(None, 1).wait()
        assert process.wait() == 0
        here.close()


def test_what_was_sent_before_the_end_is_received(mailboxes):
    with worker(mailboxes, "leave") as process:
        assert process.wait() == 0
        here = opened(mailboxes)
        assert [here.recv(1) for _ in range(3)] == [0, 1, 2]
        named = rf"GMI 1 \(process {process.pid}\) ended and has not"
        with pytest.raises(PeerDiedError, match=f"{named} sent a message for GMI 0: its log says why"):
            here.recv(1)
        with pytest.raises(PeerDiedError, match=f"{named} read a message"):
            here.send(1, 1)


def test_a_death_is_noticed_at_once_by_who_waits(mailboxes):
    with worker(mailboxes, "stand") as process:
        here = opened(mailboxes, hang_s=600)
        assert [here.recv(1) for _ in range(3)] == [0, 1, 2]
        sending = here.send("never taken", 1)
        threading.Timer(0.2, process.kill).start()
        started = time.perf_counter()
        with pytest.raises(PeerDiedError, match=rf"GMI 1 \(process {process.pid}\) ended"):
            sending.wait()
        with pytest.raises(PeerDiedError, match=rf"GMI 1 \(process {process.pid}\) ended"):
            here.recv(1)
        assert time.perf_counter() - started < 60, "by its death, not by its silence"
        with pytest.raises(PeerDiedError, match="has not read a message"):
            sending.done()


def test_half_a_message_is_none(mailboxes):
    with worker(mailboxes, "stick") as process:
        here = opened(mailboxes)
        assert here.recv(1) == "whole"
        here._inboxes[1]._notifier.wait(here._inboxes[1]._has_more, 1, "begun")
        process.kill()
        with pytest.raises(PeerDiedError, match=rf"GMI 1 \(process {process.pid}\).*sent the rest of a message"):
            here.recv(1)
        with pytest.raises(GmiError, match="from GMI 1 to GMI 0 was left half-way"):
            here.recv(1)


def test_a_stopped_peer_is_silent_and_goes_on(mailboxes):
    with worker(mailboxes, "echo") as process:
        assert process.stdout.readline() == "open\n"
        process.send_signal(signal.SIGSTOP)
        impatient = opened(mailboxes, hang_s=0.2)
        with pytest.raises(PeerSilentError, match=rf"GMI 1 \(process {process.pid}\) lives but has not sent a message"):
            impatient.recv(1)
        process.send_signal(signal.SIGCONT)
        patient = opened(mailboxes)
        patient.send("second", 1)
        assert patient.recv(1)["echo"] == "second"


def test_what_is_no_message_names_its_sender(mailboxes, monkeypatch):
    here, there = opened(mailboxes), opened(mailboxes, 1)
    monkeypatch.setattr("gmi_drl.comm.messages.messages.encode", lambda data: (b'{"tensor":["load",[]]}', []))
    here.send(None, 1)
    with pytest.raises(GmiError, match=r"GMI 0 has sent GMI 1 bytes that are no message: .* unknown dtype 'load'"):
        there.recv(0)
    with pytest.raises(GmiError, match="left half-way"):
        there.recv(0)
    monkeypatch.undo()
    monkeypatch.setattr("gmi_drl.comm.messages.messages.MAX_HEADER_BYTES", 10)
    there.send("a long text", 0)
    with pytest.raises(GmiError, match="GMI 1 has sent GMI 0 bytes that are no message: its header has 13 bytes"):
        here.recv(1)


def test_a_tensor_without_room_is_an_error(mailboxes, monkeypatch):
    here, there = opened(mailboxes), opened(mailboxes, 1)
    here.send(torch.ones(3), 1)

    def full(*given, **named):
        raise RuntimeError("not enough memory")

    monkeypatch.setattr("torch.empty", full)
    with pytest.raises(MachineError, match="no room on cpu for a tensor of 12 B from GMI 0: not enough memory"):
        there.recv(0)


@pytest.mark.parametrize("other", [0, 2, -1, "1", None, True, 1.0])
def test_only_others_are_spoken_to(mailboxes, other):
    here = opened(mailboxes)
    text = f"GMI 0 cannot send to GMI {other!r}: it must be the id of one of the 2 GMIs of this host"
    with pytest.raises(UsageError, match=text):
        here.send(1, other)
    with pytest.raises(UsageError, match=f"cannot receive from GMI {other!r}:"):
        here.recv(other)
    with pytest.raises(UsageError, match="GMI 2 is not among the 2"):
        opened(mailboxes, 2)


def test_other_processors_are_refused(mailboxes, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(MachineError, match="not riscv64"):
        opened(mailboxes)


def test_nothing_is_left_open():
    before = len(open_descriptors())
    for _ in range(200):
        mailboxes = create_mailboxes(range(2), MOST_MESSAGES, most_bytes=2 * PIECE_BYTES)
        ends = [opened(mailboxes, gmi_id) for gmi_id in (0, 1)]
        ends[0].send(torch.ones(3), 1)
        assert ends[1].recv(0).sum() == 3
        for end in ends:
            end.close()
        del end, ends
        mailboxes.close()
    assert len(open_descriptors()) == before
