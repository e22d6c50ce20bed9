import mmap
import os
from itertools import pairwise

import pytest
from conftest import open_descriptors

from gmi_drl.comm.memory.mailbox_memory import PIECE_BYTES, MailboxMemory, create_mailboxes
from gmi_drl.comm.memory.segment import create_segment
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.hardware.host_memory import SPARE_BYTES


def held(descriptor):
    return os.fstat(descriptor).st_blocks * 512


def test_mailboxes_do_not_overlap_and_are_only_promised():
    mailboxes = create_mailboxes(range(3))
    memory = MailboxMemory(mailboxes.memory)
    rooms = sorted(memory.room(sender, receiver) for sender in range(3) for receiver in range(3))
    assert all(start + size + mmap.PAGESIZE == other for (start, size), (other, _) in pairwise(rooms))
    assert all(size == 64 * 2**20 + PIECE_BYTES for _, size in rooms) and sum(rooms[-1]) == len(memory.memory)
    assert len(mailboxes.eventfds) == 3 and held(mailboxes.memory) == mmap.PAGESIZE
    mailboxes.close()


def test_hundreds_of_gmis_of_a_host_cost_a_few_pages():
    mailboxes = create_mailboxes(range(300))
    MailboxMemory(mailboxes.memory).words(17, 299)
    assert held(mailboxes.memory) < 2**16
    mailboxes.close()


def test_words_are_apart_and_get_memory_from_both_ends():
    mailboxes = create_mailboxes([3, 7])
    memory = MailboxMemory(mailboxes.memory)
    before = held(mailboxes.memory)
    pairs = [(3, 7), (7, 3)]
    for number, pair in enumerate(pairs, start=1):
        words = memory.words(*pair)
        for place in range(len(words)):
            words[place] = number
    memory.set_pid(3, 8)
    memory.set_pid(7, 9)
    other = MailboxMemory(mailboxes.memory)
    assert [set(other.words(*pair)) for pair in pairs] == [{1}, {2}] and [other.pid(3), other.pid(7)] == [8, 9]
    assert held(mailboxes.memory) == before + 2 * mmap.PAGESIZE
    mailboxes.close()


def test_a_piece_is_made_real_or_refused(monkeypatch):
    mailboxes = create_mailboxes(range(2))
    memory = MailboxMemory(mailboxes.memory)
    before = held(mailboxes.memory)
    memory.grow(1, 0, 2)
    assert held(mailboxes.memory) == before + PIECE_BYTES
    start, _ = memory.room(1, 0)
    memory.memory[start + 2 * PIECE_BYTES : start + 3 * PIECE_BYTES] = b"x" * PIECE_BYTES
    assert held(mailboxes.memory) == before + PIECE_BYTES
    monkeypatch.setattr("gmi_drl.hardware.host_memory.available_bytes", lambda: SPARE_BYTES)
    with pytest.raises(MachineError, match=r"need 256.0 KiB of memory, but 64.0 MiB are available, of which 64.0 MiB"):
        memory.grow(1, 0, 3)
    for act in (lambda: memory.words(0, 1), lambda: create_mailboxes(range(2))):
        with pytest.raises(MachineError, match=r"mailboxes need 4.0 KiB of memory, .* use fewer GMIs"):
            act()
    mailboxes.close()


@pytest.mark.parametrize("numbers", [(0, 64, PIECE_BYTES), (2, 0, PIECE_BYTES), (2, 64, PIECE_BYTES + 1), (2, 64, 0)])
def test_invalid_sizes_are_refused(numbers):
    size, *most = numbers
    with pytest.raises(UsageError, match="not {}, {} and {}".format(*numbers)):
        create_mailboxes(range(size), *most)


def test_foreign_memory_is_refused():
    segment = create_segment(2, 100)
    with pytest.raises(UsageError, match="not the memory of mailboxes"):
        MailboxMemory(segment)
    os.close(segment)
    with pytest.raises(UsageError, match="pass_fds"):
        MailboxMemory(segment)


def test_a_lack_of_descriptors_leaves_none_open(monkeypatch):
    before = len(open_descriptors())
    made = iter([os.eventfd(0)])

    def eventfd(*given):
        try:
            return next(made)
        except StopIteration:
            raise OSError(24, "Too many open files") from None

    monkeypatch.setattr("os.eventfd", eventfd)
    with pytest.raises(MachineError, match="no mailboxes for 3 GMIs: Too many open files: use fewer"):
        create_mailboxes(range(3))
    assert len(open_descriptors()) == before


def test_who_leaves_has_ended_though_its_process_goes_on_and_may_come_again():
    mailboxes = create_mailboxes([3, 7])
    memory, other = MailboxMemory(mailboxes.memory), MailboxMemory(mailboxes.memory)
    memory.set_pid(3, 8)
    memory.set_pid(7, 8)
    assert not other.has_left and other.left() == []
    memory.leave(7)
    assert other.has_left and other.left() == [7] and [other.pid(3), other.pid(7)] == [8, 8]
    memory.set_pid(7, 9)
    assert other.left() == [] and other.pid(7) == 9
    mailboxes.close()
