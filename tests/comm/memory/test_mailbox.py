import os
import threading
from contextlib import closing, contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gmi_drl.comm.memory.mailbox import Inbox, Outbox
from gmi_drl.comm.memory.mailbox_memory import PIECE_BYTES, MailboxMemory, create_mailboxes
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.errors import GmiError, MachineError, PeerSilentError
from gmi_drl.hardware.host_memory import SPARE_BYTES


@pytest.fixture
def mailboxes():
    mailboxes = create_mailboxes(range(2), most_messages=4, most_bytes=2 * PIECE_BYTES)
    yield mailboxes
    mailboxes.close()


@contextmanager
def opened(mailboxes, hang_s):
    """An outbox of GMI 0 and an inbox of GMI 1, both of this process."""
    memory = MailboxMemory(mailboxes.memory)
    notifier = [Notifier(mailboxes, memory, own, hang_s) for own in (0, 1)]
    yield Outbox(memory, notifier[0], 1), Inbox(memory, notifier[1], 0)
    for bell in notifier:
        bell.close()


@pytest.fixture
def ends(mailboxes):
    with opened(mailboxes, hang_s=60) as ends:
        yield ends


@pytest.fixture
def impatient(mailboxes):
    """For what never comes."""
    with opened(mailboxes, hang_s=0.1) as ends:
        yield ends


def numbers(count, seed=0):
    return torch.randint(0, 256, (count,), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def take(inbox, count):
    with inbox.message():
        came = torch.zeros(count, dtype=torch.uint8)
        inbox.read(came)
        return came


def held(descriptor):
    return os.fstat(descriptor).st_blocks * 512


def test_a_message_longer_than_the_mailbox_goes_in_pieces(mailboxes, ends):
    outbox, inbox = ends
    sizes = [7 * PIECE_BYTES + 3, 1, 5 * PIECE_BYTES, 2 * PIECE_BYTES, 12_345]
    sender = threading.Thread(target=lambda: [outbox.send([numbers(size, size)]) for size in sizes])
    sender.start()
    for size in sizes:
        assert take(inbox, size).equal(numbers(size, size))
    sender.join()


def test_each_end_rings_for_the_other_after_a_piece_and_after_a_message(mailboxes, ends):
    outbox, inbox = ends
    for bell in mailboxes.eventfds.values():
        os.eventfd_read(bell)
    outbox.send([numbers(PIECE_BYTES + 1)])
    assert os.eventfd_read(mailboxes.eventfds[1]) == 2
    take(inbox, PIECE_BYTES + 1)
    assert os.eventfd_read(mailboxes.eventfds[0]) == 2


def test_memory_is_what_was_under_way(mailboxes, ends):
    outbox, inbox = ends
    before = held(mailboxes.memory)
    for seed in range(40):  # through more than the whole mailbox
        outbox.send([numbers(50_000, seed)])
        assert take(inbox, 50_000).equal(numbers(50_000, seed))
    assert held(mailboxes.memory) <= before + 2 * PIECE_BYTES
    outbox.send([numbers(2 * PIECE_BYTES)])
    assert held(mailboxes.memory) == before + 3 * PIECE_BYTES


def test_as_many_bytes_as_are_allowed_are_under_way_wherever_they_begin(impatient):
    outbox, inbox = impatient
    for first in (1, PIECE_BYTES - 1, PIECE_BYTES):
        outbox.send([numbers(first)])
        take(inbox, first)
        outbox.send([numbers(PIECE_BYTES, 1), numbers(PIECE_BYTES, 2)])
        with pytest.raises(PeerSilentError, match="has not read a message"):
            outbox.send([numbers(1)])
        came = take(inbox, 2 * PIECE_BYTES)
        assert came.equal(torch.cat([numbers(PIECE_BYTES, 1), numbers(PIECE_BYTES, 2)]))


def test_a_message_that_was_not_begun_can_be_sent_again(ends, monkeypatch):
    outbox, inbox = ends
    with monkeypatch.context() as patch, pytest.raises(MachineError, match="no memory"):
        patch.setattr(MailboxMemory, "grow", lambda *where: (_ for _ in ()).throw(MachineError("no memory")))
        outbox.send([numbers(10)])
    outbox.send([numbers(10)])
    with pytest.raises(KeyboardInterrupt), inbox.message():
        raise KeyboardInterrupt
    assert take(inbox, 10).equal(numbers(10))


def test_a_message_that_was_left_half_way_is_the_last(impatient):
    outbox, inbox = impatient
    with pytest.raises(PeerSilentError, match=r"GMI 1 \(process \d+\) lives but has not read the rest of a message"):
        outbox.send([numbers(3 * PIECE_BYTES)])
    with pytest.raises(GmiError, match="from GMI 0 to GMI 1 was left half-way"):
        outbox.send([numbers(1)])
    with pytest.raises(PeerSilentError, match=r"GMI 0 \(process \d+\) lives but has not sent the rest of a message"):
        take(inbox, 3 * PIECE_BYTES)
    with pytest.raises(GmiError, match="from GMI 0 to GMI 1 was left half-way"):
        take(inbox, 1)


def test_a_lack_of_memory_is_an_error_and_no_signal(ends, monkeypatch):
    outbox, inbox = ends
    outbox.send([numbers(10)])
    monkeypatch.setattr("gmi_drl.hardware.host_memory.available_bytes", lambda: SPARE_BYTES)
    outbox.send([numbers(10, 1)])  # what is there is used
    assert take(inbox, 10).equal(numbers(10)) and take(inbox, 10).equal(numbers(10, 1))
    with pytest.raises(MachineError, match="send less"):
        outbox.send([numbers(PIECE_BYTES)])


class Reopened:
    """Both ends of a mailbox, each of which is opened anew now and then, as by a process that comes after another."""

    def __init__(self, mailboxes):
        self.memory = MailboxMemory(mailboxes.memory)
        self.notifier = [Notifier(mailboxes, self.memory, own, hang_s=0.1) for own in (0, 1)]
        self.open_outbox()
        self.open_inbox()

    def open_outbox(self):
        self.outbox = Outbox(self.memory, self.notifier[0], 1)

    def open_inbox(self):
        self.inbox = Inbox(self.memory, self.notifier[1], 0)

    def close(self):
        for bell in self.notifier:
            bell.close()


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 2 * PIECE_BYTES), st.booleans(), st.booleans()), max_size=12))
def test_ends_that_are_opened_anew_go_on_where_the_last_ones_were(messages):
    mailboxes = create_mailboxes(range(2), most_messages=4, most_bytes=2 * PIECE_BYTES)
    before, under_way = held(mailboxes.memory), []
    with closing(mailboxes), closing(Reopened(mailboxes)) as ends:
        for number, (size, opens_outbox, opens_inbox) in enumerate(messages, start=1):
            while len(under_way) == 4 or sum(under_way) + size > 2 * PIECE_BYTES:
                assert take(ends.inbox, under_way[0]).equal(numbers(under_way[0], under_way.pop(0)))
            assert ends.outbox.send([numbers(size, size)]) == number
            under_way.append(size)
            if opens_outbox:
                ends.open_outbox()
            if opens_inbox:
                ends.open_inbox()
        for size in under_way:
            assert take(ends.inbox, size).equal(numbers(size, size))
        assert held(mailboxes.memory) <= before + 4096 + 3 * PIECE_BYTES, "pieces are used again"


def test_a_message_that_a_process_left_half_way_is_an_error_for_the_next(mailboxes):
    with closing(Reopened(mailboxes)) as ends:
        ends.outbox.send([numbers(5)])
        with pytest.raises(PeerSilentError):
            ends.outbox.send([numbers(3 * PIECE_BYTES)])
        ends.open_outbox()
        assert take(ends.inbox, 5).equal(numbers(5))
        with pytest.raises(GmiError, match="from GMI 0 to GMI 1 was left half-way"):
            ends.outbox.send([numbers(1)])
        with pytest.raises(PeerSilentError):
            take(ends.inbox, 3 * PIECE_BYTES)
        ends.open_inbox()
        with pytest.raises(GmiError, match="from GMI 0 to GMI 1 was left half-way"):
            take(ends.inbox, 1)


def test_a_message_of_which_nothing_was_told_is_sent_anew(mailboxes):
    with closing(Reopened(mailboxes)) as ends:
        with pytest.raises(KeyboardInterrupt):
            ends.outbox.send(part for part in (numbers(9), Interrupted()))
        ends.open_outbox()
        ends.outbox.send([numbers(7)])
        assert take(ends.inbox, 7).equal(numbers(7))


class Interrupted:
    """A part of a message in which its sender ends."""

    def numel(self):
        raise KeyboardInterrupt
