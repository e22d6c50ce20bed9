"""Queues behind a server: each item comes once, with its own rows, while writers go on."""

import threading

import pytest
import torch

from gmi_drl.replay import Field, Fifo, Queue, Signature, Table
from gmi_drl.replay.storage import make_storage
from tests.replay.servers import served

WIDE = Signature((Field("number", (2560,), torch.int64),))
"""Rows of 20 kB, which are sent from where they lie."""

NARROW = Signature((Field("number", (1,), torch.int64),))


@pytest.mark.parametrize(
    ("signature", "placement", "steps", "count"), [(WIDE, "cpu", 208, 600), (NARROW, "shared", 128, 1000)]
)
def test_what_a_queue_gives_is_never_written_over(signature, placement, steps, count):
    storage = make_storage(signature, steps, placement=placement)
    made = {"sampler": Fifo(), "remover": Fifo(), "limiter": Queue(steps), "max_times_sampled": 1}
    table = Table("queue", signature, max_size=steps, storage=storage, **made)
    width = signature.step_bytes // 8
    with served(table) as (_, client):

        def write():
            with client.writer("queue", timeout_s=60) as writer:
                for number in range(count):
                    rows = torch.full((1, width), number)
                    writer.create_items("queue", writer.append({"number": rows}))

        thread = threading.Thread(target=write)
        thread.start()
        with client.sampler("queue", 10, max_in_flight=100, timeout_s=60) as sampler:
            batches = [next(sampler).fields["number"] for _ in range(count // 10)]
        thread.join()
        rows = torch.cat(batches)[:, 0]
        assert rows[:, 0].tolist() == list(range(count)) and bool((rows == rows[:, :1]).all())
        blocks = storage.blocks
        assert len(set(blocks._free)) == len(blocks._free)
