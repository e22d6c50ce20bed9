"""What a word tells of must be there before it, also on processors that store in another order.

No such processor is needed to see it: whatever was stored since the last fence may be seen in any order, so nothing but
the word may have been.
"""

import mmap
import os

import pytest
import torch

from gmi_drl.comm.channels import create_memory, join_as_trainer
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory import fence
from gmi_drl.comm.memory.mailbox import Inbox, Outbox
from gmi_drl.comm.memory.mailbox_memory import MailboxMemory, create_mailboxes
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.memory.rank_table import RankTable
from gmi_drl.comm.memory.record_ring import RingReader, RingWriter
from gmi_drl.comm.memory.segment import LINE_BYTES
from tests.comm.channels.traced_rollouts import parameters, sizes_of


class Watched:
    """What is in a memory at each fence, and what is stored there after the last one.

    Args:
        memory: Bytes of it.
    """

    def __init__(self, memory, monkeypatch):
        self.memory, self.at_fences = memory, []
        monkeypatch.setattr(fence, "_acquire", lambda: self.at_fences.append(bytes(memory)))
        monkeypatch.setattr(fence, "_release", lambda: None)

    def last_words(self):
        """The words that were stored after the last fence, by their places."""
        before, now = (memoryview(bytes(memory)).cast("q") for memory in (self.at_fences[-1], self.memory))
        return {place: now[place] for place in range(len(now)) if now[place] != before[place]}


def test_an_arrival_follows_the_pid(monkeypatch):
    memory = mmap.mmap(-1, 2 * LINE_BYTES)
    watched = Watched(memory, monkeypatch)

    def sync(peers):
        assert watched.last_words() == {1: 1 << 48} and memoryview(memory).cast("q")[2] == os.getpid()

    monkeypatch.setattr(RankTable, "_sync_patiently", sync)
    monkeypatch.setattr(RankTable, "_watch", lambda peers, peer: None)
    RankTable(memory, 0, Membership(0, [range(2)], hang_s=1))


def test_a_count_of_records_follows_the_record_and_its_reading(monkeypatch):
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    writer, reader = RingWriter(memory, 0, 8), RingReader(memory, 0, 8)
    watched = Watched(memory, monkeypatch)
    writer.reserve()
    writer.write(1, 2, 3, 4, 5)
    assert watched.last_words() == {0: 1}
    assert len(list(reader.read_all())) == 1 and watched.last_words() == {LINE_BYTES // 8: 1}


def test_how_far_a_mailbox_is_follows_its_bytes(monkeypatch):
    mailboxes = create_mailboxes(range(2))
    memory = MailboxMemory(mailboxes.memory)
    notifier = [Notifier(mailboxes, memory, own, hang_s=1) for own in (0, 1)]
    outbox, inbox = Outbox(memory, notifier[0], 1), Inbox(memory, notifier[1], 0)
    start, _ = memory.room(0, 1)
    first = start - mmap.PAGESIZE  # its words
    watched = Watched(memoryview(memory.memory)[first : start + mmap.PAGESIZE], monkeypatch)
    outbox.send([torch.ones(8, dtype=torch.uint8)])
    assert watched.last_words() == {0: 8}
    with inbox.message():
        inbox.read(torch.empty(8, dtype=torch.uint8))
    assert watched.last_words() == {LINE_BYTES // 8: 8}
    for bell in notifier:
        bell.close()
    mailboxes.close()


def test_a_version_follows_its_parameters(monkeypatch):
    mailboxes, descriptor, sizes = create_mailboxes(range(2)), create_memory(), sizes_of(agents=(1,), trainers=(0,))
    end = join_as_trainer(descriptor, mailboxes, 0, sizes, 1)
    watched = Watched(end._memory.memory, monkeypatch)
    end.parameters.publish(0, parameters(3))
    assert list(watched.last_words().values()) == [1]
    end.close()
    mailboxes.close()
    os.close(descriptor)


@pytest.mark.parametrize(
    ("is_in_order", "before_a_store", "before_a_load"), [(True, "AR", ""), (False, "ARAR", "ARAR")]
)
def test_a_fence_is_a_release_before_an_acquire_where_the_processor_keeps_no_order(
    is_in_order, before_a_store, before_a_load, monkeypatch
):
    monkeypatch.setattr(fence, "_IN_ORDER", is_in_order)
    done = []
    monkeypatch.setattr(fence, "_acquire", lambda: done.append("A"))
    monkeypatch.setattr(fence, "_release", lambda: done.append("R"))
    words = memoryview(bytearray(8)).cast("q")
    fence.publish(words, 0, 5)
    assert "".join(done) == before_a_store and words[0] == 5
    done.clear()
    fence.order_loads()
    assert "".join(done) == before_a_load


@pytest.mark.parametrize(("processor", "can"), [("x86_64", True), ("aarch64", True), ("riscv64", False)])
def test_memory_is_shared_on_processors_of_which_a_fence_is_known(processor, can, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: processor)
    assert (fence.obstacle("channels") is None) == can
