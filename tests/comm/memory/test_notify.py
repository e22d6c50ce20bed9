import os
import select
import subprocess
import sys
import threading
import time

import pytest

from gmi_drl.comm.memory.mailbox_memory import MailboxMemory, create_mailboxes
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.errors import PeerDiedError, PeerSilentError

NAP_S = 30.0  # longer than anything here takes


@pytest.fixture
def mailboxes():
    mailboxes = create_mailboxes(range(3))
    yield mailboxes
    mailboxes.close()


@pytest.fixture
def memory(mailboxes):
    return MailboxMemory(mailboxes.memory)


@pytest.fixture
def ended(memory):
    """GMI 1 was a process that is gone: nobody has its number any more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    memory.set_pid(1, process.pid)


def test_what_a_peer_did_before_it_ended_counts(mailboxes, memory, ended):
    notifier = Notifier(mailboxes, memory, 0, hang_s=60)
    notifier.wait(iter([False, True]).__next__, 1, "spoken")
    for act in (lambda: notifier.wait(lambda: False, 1, "spoken"), lambda: notifier.check(1, "spoken")):
        with pytest.raises(PeerDiedError, match=r"GMI 1 \(process \d+\) ended and has not spoken for GMI 0"):
            act()
    notifier.close()


def test_the_end_of_another_is_not_that_of_the_peer(mailboxes, memory, ended):
    notifier = Notifier(mailboxes, memory, 0, hang_s=0.1)
    Notifier(mailboxes, memory, 2, hang_s=60)
    notifier.check(2, "spoken")
    with pytest.raises(PeerSilentError, match=r"GMI 2 .* lives but has not spoken"):
        notifier.wait(lambda: False, 2, "spoken")
    notifier.close()


def test_a_ring_before_the_sleep_is_heard_and_one_of_another_ends_nothing(mailboxes, memory, monkeypatch):
    monkeypatch.setattr("gmi_drl.comm.memory.notify._NAP_S", NAP_S)
    started = time.monotonic()
    notifier, peer, other = (Notifier(mailboxes, memory, own, hang_s=60) for own in (0, 1, 2))
    looks = []

    def is_done():
        """Done when looked at for the third time; rung for between looking and sleeping, first by the other."""
        looks.append(1)
        (other, peer, peer)[len(looks) - 1].notify(0)
        return len(looks) == 3

    notifier.wait(is_done, 1, "spoken")
    assert len(looks) == 3 and time.monotonic() - started < NAP_S, "woken, not awake by itself"
    for bell in (notifier, peer, other):
        bell.close()


def test_who_comes_rings_for_all_others(mailboxes, memory):
    Notifier(mailboxes, memory, 1, hang_s=60)
    assert [os.eventfd_read(mailboxes.eventfds[other]) for other in (0, 2)] == [1, 1]
    with pytest.raises(BlockingIOError):
        os.eventfd_read(mailboxes.eventfds[1])


def test_who_may_wait_for_another_is_waited_for_longer(mailboxes, memory):
    notifier = Notifier(mailboxes, memory, 0, hang_s=0.05)
    with pytest.raises(PeerSilentError, match=r"GMI 1 .* has not spoken for 0.15 s \(3 x hang_s\) while GMI 0 waited"):
        notifier.wait_for(lambda: False, (1,), "spoken", patience=3)
    notifier.close()


def test_who_waits_sleeps(mailboxes, memory):
    notifier, looks = Notifier(mailboxes, memory, 0, hang_s=0.8), []
    with pytest.raises(PeerSilentError, match=r"GMI 1 is not here yet and has not spoken for 0.8 s"):
        notifier.wait(lambda: looks.append(1), 1, "spoken")
    assert len(looks) < 10  # a look at once, one after each half a second, and the last
    notifier.close()


def test_the_end_of_any_who_is_waited_for_ends_the_wait_and_is_remembered(mailboxes, memory, ended):
    notifier, other = Notifier(mailboxes, memory, 0, hang_s=60), Notifier(mailboxes, memory, 2, hang_s=60)
    assert notifier.seen_ended((1, 2)) == []
    with pytest.raises(PeerDiedError, match=r"GMI 1 \(process \d+\) ended and has not spoken"):
        notifier.wait_for(lambda: False, (2, 1), "spoken")
    assert notifier.seen_ended((2, 1)) == notifier.poll_ended((2, 1)) == [1]
    notifier.wait_for(iter([False, True]).__next__, (2, 1), "spoken")
    for bell in (notifier, other):
        bell.close()


def test_the_end_of_one_who_is_watched_wakes_who_waits_for_another(mailboxes, memory, monkeypatch):
    monkeypatch.setattr("gmi_drl.comm.memory.notify._NAP_S", NAP_S)
    started = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    notifier, other = Notifier(mailboxes, memory, 0, hang_s=60), Notifier(mailboxes, memory, 2, hang_s=60)
    memory.set_pid(1, process.pid)
    assert notifier.poll_ended((1,)) == []
    process.stdin.close()
    notifier.wait_for(lambda: notifier.seen_ended((1,)) == [1], (2,), "spoken")
    assert time.monotonic() - started < NAP_S, "woken, not awake by itself"
    process.wait()
    for bell in (notifier, other):
        bell.close()


def test_all_who_are_silent_are_named(mailboxes, memory):
    notifier, other = Notifier(mailboxes, memory, 0, hang_s=0.05), Notifier(mailboxes, memory, 2, hang_s=60)
    here = r"GMI 2 \(process \d+\)"
    with pytest.raises(PeerSilentError, match=rf"{here}, GMI 1 is not here yet and has not spoken for 0.05 s"):
        notifier.wait_for(lambda: False, (2, 1), "spoken")
    for bell in (notifier, other):
        bell.close()


def test_a_descriptor_that_is_heeded_wakes_who_waits_for_a_peer(mailboxes, memory, monkeypatch):
    monkeypatch.setattr("gmi_drl.comm.memory.notify._NAP_S", NAP_S)
    notifier = Notifier(mailboxes, memory, 0, hang_s=60)
    Notifier(mailboxes, memory, 1, hang_s=60)
    notifier.poll_ended((1,))  # who came rang
    reader, writer = os.pipe()
    notifier.watch_descriptor(reader)
    began = time.monotonic()
    threading.Timer(0.1, os.write, (writer, b"x")).start()
    notifier.wait(lambda: bool(select.select([reader], [], [], 0)[0]), 1, "spoken")
    assert time.monotonic() - began < NAP_S, "woken"
    notifier.unwatch_descriptor(reader)
    assert notifier.poll_ended((1,)) == []
    os.close(reader)
    os.close(writer)
    notifier.close()


def test_who_dozes_wakes_when_it_is_done_whoever_has_ended_and_else_after_its_time(mailboxes, memory, ended):
    notifier, looks = Notifier(mailboxes, memory, 0, hang_s=60), []
    notifier.poll_ended([1])
    notifier.notify(0)
    assert notifier.wait_at_most(lambda: looks.append(0) or len(looks) > 1, most_s=60) and len(looks) == 2
    assert not notifier.wait_at_most(lambda: False, most_s=0.05) and notifier.seen_ended([1]) == [1]
    notifier.close()


def test_a_nap_is_ended_by_a_notification_once_and_by_a_descriptor_as_long_as_it_can_be_read(mailboxes, memory):
    notifier, eventfd = Notifier(mailboxes, memory, 0, hang_s=60), os.eventfd(0)
    notifier.watch_descriptor(eventfd)
    started = time.monotonic()
    notifier.notify(0)
    notifier.nap(NAP_S)
    assert time.monotonic() - started < NAP_S
    for seconds in (0.0, 0.0003, 1.002):
        before = time.monotonic()
        notifier.nap(seconds)
        assert time.monotonic() - before >= seconds
    os.eventfd_write(eventfd, 1)
    notifier.nap(NAP_S)
    notifier.nap(NAP_S)
    assert time.monotonic() - started < NAP_S
    notifier.unwatch_descriptor(eventfd)
    os.close(eventfd)
    notifier.nap(0.001)
    notifier.close()


def test_another_process_of_a_peer_is_watched_in_the_place_of_one_that_ended(mailboxes, memory, ended):
    notifier = Notifier(mailboxes, memory, 0, hang_s=60)
    assert notifier.poll_ended([1]) == [1]
    with subprocess.Popen(["sleep", "1000"]) as second:
        memory.set_pid(1, second.pid)
        notifier.watch_successor(1)
        memory.set_pid(1, os.getpid())  # as a third one comes: it is the second that is watched
        assert notifier.poll_ended([1]) == []
        second.kill()
        notifier.wait_until_left([1], most_s=20)
        assert notifier.poll_ended([1]) == [1]
    notifier.close()


def test_who_is_seen_off_has_ended_or_had_its_time(mailboxes, memory):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        memory.set_pid(1, process.pid)
        notifier = Notifier(mailboxes, memory, 0, hang_s=60)
        notifier.wait_until_left((1,), 0.05)
        assert not notifier.poll_ended((1,))
        notifier.wait_until_left((1,), NAP_S, lambda peer: peer == 1)  # at once: it says so itself
        process.stdin.close()
        notifier.wait_until_left((1,), NAP_S)
        assert process.poll() is not None or notifier.seen_ended((1,)) == [1]
    notifier.wait_until_left((1,), NAP_S)  # at once
    notifier.close()


def test_a_peer_that_leaves_has_ended_for_who_sleeps_though_its_process_goes_on(mailboxes, memory, monkeypatch):
    monkeypatch.setattr("gmi_drl.comm.memory.notify._NAP_S", NAP_S)
    notifier, peer = (Notifier(mailboxes, memory, own, hang_s=60) for own in (0, 1))
    leaving = threading.Timer(0.05, peer.leave)
    leaving.start()
    with pytest.raises(PeerDiedError, match=r"GMI 1 \(process \d+\) ended and has not spoken for GMI 0"):
        notifier.wait(lambda: False, 1, "spoken")
    leaving.join()
    later = Notifier(mailboxes, memory, 2, hang_s=60)
    assert later.poll_ended([0, 1]) == [1]
    connected = Notifier(mailboxes, memory, 2, hang_s=60)
    connected.watch_elsewhere(1)
    assert connected.poll_ended([1]) == [], (
        "its connection tells when it ends: here it has a proxy, which may end first"
    )
    connected.close()
    for one in (notifier, peer, later):
        one.close()
