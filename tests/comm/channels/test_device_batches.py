"""What is copied to a trainer's device, on a CPU in a GPU's place."""

import os

import pytest
import torch

from gmi_drl.comm.channels import create_memory, join_as_agent, join_as_trainer
from gmi_drl.comm.channels.device_batches import DeviceBatches
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.errors import PeerSilentError
from tests.comm.channels.traced_rollouts import FORM, RECORDS, pieces, rollouts_in, send, sizes_of, write

ROLLOUTS = 3


@pytest.fixture
def run():
    """A trainer whose batches are copies, its agent, and the bytes of all copies so far."""
    opened = []

    def start(**channels):
        mailboxes, memory, copied = create_mailboxes(range(2)), create_memory(), []
        sizes = sizes_of(rollouts=ROLLOUTS, **channels)
        trainer, agent = (
            end(memory, mailboxes, gmi, sizes, 0.01) for end, gmi in ((join_as_trainer, 0), (join_as_agent, 1))
        )
        batches = trainer._batches = DeviceBatches(trainer._memory, 0, trainer._batcher, torch.device("cpu"))
        copy = batches._copy
        batches._copy = lambda number, span: (copied.append(span.stop - span.start), copy(number, span))
        opened.append((trainer, agent, mailboxes, memory))
        return trainer, agent, copied

    yield start
    for trainer, agent, mailboxes, memory in opened:
        trainer.close()
        agent.close()
        mailboxes.close()
        os.close(memory)


def test_small_kinds_of_all_rollouts_go_as_one_copy(run):
    trainer, agent, copied = run()
    for _ in range(ROLLOUTS):
        send(agent.lease(), 1)
    batch = trainer.take()
    assert rollouts_in(batch) == [(1, 0), (1, 1), (1, 2)]
    assert sorted(copied) == sorted(ROLLOUTS * kind.nbytes for kind in FORM.kinds)
    assert batch.views["obs"].data_ptr() != trainer._memory.batch(0, 0).data_ptr()


@pytest.mark.parametrize(("more", "records"), [({"mode": "UCC"}, RECORDS["UCC"]), ({"transfer_bytes": 1}, 21)])
def test_others_go_as_they_are_told(run, more, records):
    trainer, agent, copied = run(**more)
    place = agent.lease()
    for told, (kind, step) in enumerate(pieces(), start=1):
        write(place, 1, kind, step)
        with pytest.raises(PeerSilentError):
            trainer.take()
        if told == len(FORM.kinds) and "mode" in more:
            assert len(copied) == told, "each when it has come"
    place.commit()
    assert len(copied) >= records
    for _ in range(ROLLOUTS - 1):
        send(agent.lease(), 1)
    assert rollouts_in(trainer.take()) == [(1, 0), (1, 1), (1, 2)]
    assert sum(copied) == ROLLOUTS * FORM.nbytes
