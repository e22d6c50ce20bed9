import os
from contextlib import closing
from itertools import pairwise

import pytest

from gmi_drl.comm.channels import create_memory, join_as_agent, join_as_trainer
from gmi_drl.comm.channels.channel_memory import ChannelMemory
from gmi_drl.comm.memory.mailbox_memory import MailboxMemory, create_mailboxes
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.memory.record_ring import ring_bytes
from gmi_drl.errors import MachineError, PeerSilentError, UsageError
from gmi_drl.hardware.host_memory import SPARE_BYTES
from tests.comm.channels.traced_rollouts import FORM, sizes_of


@pytest.fixture
def mailboxes():
    mailboxes = create_mailboxes(range(5))
    yield mailboxes
    mailboxes.close()


@pytest.fixture
def descriptor():
    descriptor = create_memory()
    yield descriptor
    os.close(descriptor)


def opened(descriptor, mailboxes, sizes, gmi=0):
    return ChannelMemory(descriptor, sizes, Notifier(mailboxes, MailboxMemory(mailboxes.memory), gmi, hang_s=0.01))


def test_each_agent_has_two_words_that_nothing_else_has(descriptor):
    """Of so many agents one word of each fills less than a page, and both fill more."""
    agents = tuple(range(2, 302))
    with closing(create_mailboxes(range(302))) as mailboxes:
        memory = opened(descriptor, mailboxes, sizes_of(agents=agents, trainers=(0, 1)))
        tables = [bytes(memory.table(trainer)) for trainer in range(2)]
        assert len(memory.predecessors) == len(memory.elsewhere) == len(agents)
        memory.elsewhere[:] = memoryview(b"\xff" * 8 * len(agents)).cast("q")
        assert not any(memory.predecessors)
        assert [bytes(memory.table(trainer)) for trainer in range(2)] == tables


def test_it_is_as_large_as_it_is_from_the_first_moment(descriptor, mailboxes):
    memory = opened(descriptor, mailboxes, sizes_of())
    assert os.fstat(descriptor).st_size == memory.nbytes <= os.fstat(descriptor).st_blocks * 512
    for size in (0, 2 * memory.nbytes):
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, size)


def test_nothing_overlaps(descriptor, mailboxes):
    sizes = sizes_of(rollouts=2, agents=(2, 3, 4), trainers=(0, 1), max_lag=1)
    memory = opened(descriptor, mailboxes, sizes)
    base = memory._bytes(0, 1).data_ptr()
    parts = [(0, len(sizes.text) + 16), (memory._run_at, memory._run_at + 8 * len(memory._run))]
    parts += [(memory._tables_at + rank * memory._table_bytes,) * 2 for rank in range(2)]
    parts = [(start, end if end > start else start + 8 * len(memory.table(0))) for start, end in parts]
    rings = [memory.ring_at(agent, trainer) for agent in range(3) for trainer in range(2)]
    parts += [(start, start + ring_bytes(sizes.ring_records)) for start in rings]
    tensors = [*memory.parameters(None, patience=1)._buffers]
    tensors += [memory.batch(trainer, batch) for trainer in range(2) for batch in range(2)]
    parts += [(part.data_ptr() - base, part.data_ptr() - base + part.numel()) for part in tensors]
    parts.sort()
    assert all(end <= start for (_, end), (start, _) in pairwise(parts))
    assert parts[-1][1] <= memory.nbytes
    assert memory.batch(1, 1).numel() == FORM.offsets(2)[-1]
    assert all((memory.batch(*where).data_ptr() - base) % 4096 == 0 for where in ((0, 1), (1, 0)))


def test_the_first_trainer_makes_it_and_the_others_wait(descriptor, mailboxes):
    for gmi in (1, 2):
        with pytest.raises(PeerSilentError, match="GMI 0 is not here yet and has not made the memory of the channels"):
            opened(descriptor, mailboxes, sizes_of(agents=(2,), trainers=(0, 1)), gmi)


def test_who_waits_for_it_is_rung_for_when_it_is_there(descriptor, mailboxes):
    opened(descriptor, mailboxes, sizes_of(agents=(2,), trainers=(0, 1)))
    assert [os.eventfd_read(mailboxes.eventfds[gmi]) for gmi in (1, 2)] == [2, 2], "when GMI 0 came, and then"


def test_other_sizes_are_refused_with_both(descriptor, mailboxes):
    trainer = join_as_trainer(descriptor, mailboxes, 0, sizes_of(max_lag=1), hang_s=0.01)
    with pytest.raises(UsageError, match="for other sizes than this GMI's: max_lag 1 and 2"):
        join_as_agent(descriptor, mailboxes, 1, sizes_of(max_lag=2), hang_s=0.01)
    trainer.close()


def test_what_is_no_memory_of_channels_is_refused(descriptor, mailboxes):
    with pytest.raises(UsageError, match=f"descriptor {mailboxes.memory} is not the memory of the channels"):
        opened(mailboxes.memory, mailboxes, sizes_of(), 1)
    with pytest.raises(UsageError, match="is not the empty memory of the channels"):
        opened(mailboxes.memory, mailboxes, sizes_of())
    with pytest.raises(UsageError, match="descriptor 10000 is not the memory of the channels: Bad file descriptor"):
        opened(10_000, mailboxes, sizes_of(), 1)


def test_a_lack_of_memory_is_an_error_before_anything_is_read(descriptor, mailboxes, monkeypatch):
    monkeypatch.setattr("gmi_drl.hardware.host_memory.available_bytes", lambda: SPARE_BYTES)
    with pytest.raises(MachineError, match=r"channels need .* of memory, .* or a smaller max_lag"):
        opened(descriptor, mailboxes, sizes_of())
    assert os.fstat(descriptor).st_size == 0
