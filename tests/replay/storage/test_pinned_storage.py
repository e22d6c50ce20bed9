"""Pinned storages without a GPU: CUDA is replaced where they call it."""

import gc
import os

import pytest
import torch

from gmi_drl.replay.limiters import MinSize, ReplayTimeoutError
from gmi_drl.replay.ring import Ring
from gmi_drl.replay.storage import make_storage, pinned
from gmi_drl.replay.stream import Stream
from tests.replay.signatures import NUMBERED
from tests.replay.tables import add, numbered_table
from tests.replay.test_ring import STEP, STEPS, History, N
from tests.replay.test_ring import add as add_to_ring


class Event:
    """Comes when a test says so."""

    is_done = True
    waits = 0

    def record(self, stream):
        """Follow what is queued."""

    def query(self):
        """Whether it has come."""
        return Event.is_done

    def synchronize(self):
        """Wait for it."""
        Event.waits += 1


@pytest.fixture
def unregistered(monkeypatch):
    """What was unregistered."""
    gone = []
    monkeypatch.setattr(Event, "is_done", True)
    monkeypatch.setattr(Event, "waits", 0)
    monkeypatch.setattr(pinned, "try_to_register", lambda rows: "")
    monkeypatch.setattr(pinned, "unregister", lambda rows: gone.append(rows.shape))
    monkeypatch.setattr(pinned, "_seen_by_gpu", lambda rows, device: rows)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    monkeypatch.setattr(
        pinned.PinnedStorage, "device", property(lambda _: torch.device("cpu"), lambda _, device: None), raising=False
    )
    return gone


def test_rows_are_not_written_over_before_the_gpu_has_gathered_them(unregistered):
    storage = make_storage(NUMBERED, 160, placement="pinned", device="cuda")
    table = numbered_table(max_size=1000, storage=storage, limiter=MinSize(1))
    stream = Stream(storage)
    for _ in range(storage.steps):
        add(table, [1], stream=stream)
    Event.is_done = False
    table.sample(5)
    with pytest.raises(ReplayTimeoutError, match="are still read"):
        for _ in range(storage.steps):
            add_in_time(table, stream)
    Event.is_done = True
    add_in_time(table, stream)


def add_in_time(table, stream):
    table.insert(stream.append({"number": torch.tensor([1])}, timeout_s=0.01), 1, 1.0)


def test_a_ring_waits_before_it_writes_over_its_oldest_step(unregistered):
    ring, history = Ring(STEP, N, STEPS, placement="pinned", device="cuda"), History(1)
    for _ in range(STEPS):
        add_to_ring(ring, history)
    ring.sample(4)
    assert Event.waits == 0
    add_to_ring(ring, history)
    assert Event.waits == 1
    ring.close()
    assert len(unregistered) == 2


@pytest.mark.parametrize("placement", ["shared", "pinned"])
@pytest.mark.parametrize("is_closed", [False, True])
def test_memory_is_given_back_with_the_storage(unregistered, placement, is_closed):
    device = "cuda" if placement == "pinned" else "cpu"
    storage = make_storage(NUMBERED, 100, placement=placement, device=device)
    descriptor = storage.descriptor
    os.fstat(descriptor)
    if is_closed:
        storage.close()
        storage.close()
    del storage
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert len(unregistered) == (placement == "pinned")
