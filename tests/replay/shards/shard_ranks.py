"""Ranks of shards as threads of one process, over a link that has no sockets."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import torch

from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.shards import open_shards

SIGNATURE = Signature([Field("value", (2,), torch.float32, "a"), Field("tag", (), torch.int64, "b")])
DEADLINE_S = 60.0


class FakeLink:
    """A `MovingLink` between threads."""

    def __init__(self, rank, size, queues):
        self.rank, self.size, self._queues = rank, size, queues
        self.device = torch.device("cpu")

    def move_several(self, sends, receives):
        for to, vectors in sends.items():
            for vector in vectors:
                if vector.numel():
                    self._queues[self.rank, to].put(vector.clone())
        for source, vectors in receives.items():
            for into in vectors:
                if into.numel():
                    came = self._queues[source, self.rank].get(timeout=DEADLINE_S)
                    assert came.dtype == into.dtype and came.numel() == into.numel()
                    into.view(-1).copy_(came.view(-1))

    def close(self):
        pass


def fake_links(size):
    queues = {(source, to): queue.Queue() for source in range(size) for to in range(size)}
    return [FakeLink(rank, size, queues) for rank in range(size)]


def on_ranks(size, job, **options):
    """What `job(shards)` gives on each rank."""
    barrier = threading.Barrier(size)
    settings = {"signature": SIGNATURE, "trajectories": 8, "steps": 4, "placement": "cpu"} | options
    signature = settings.pop("signature")

    def live(link):
        shards = open_shards(link, signature, **settings)
        shards.barrier = lambda: barrier.wait(DEADLINE_S)
        try:
            return job(shards)
        except BaseException:
            barrier.abort()
            raise

    return together(size, live)


def together(size, live):
    """What `live(link)` gives on each rank."""
    with ThreadPoolExecutor(size) as pool:
        return [future.result(2 * DEADLINE_S) for future in [pool.submit(live, link) for link in fake_links(size)]]


def trajectories(tags, steps=4):
    """Trajectories `[n, steps]` whose every number tells the tag and the step."""
    tag = torch.as_tensor(tags, dtype=torch.int64)[:, None] * 100 + torch.arange(steps)
    return {"value": torch.stack((tag, -tag), 2).float(), "tag": tag}
