"""In which order a GPU would be told of copies into slots, and of what uses these."""

from contextlib import contextmanager

import pytest
import torch

from gmi_drl.comm.memory.side_copies import SideCopies

GPU = torch.device("cuda")


class Stream:
    """Writes down what it is told."""

    def __init__(self, name, log):
        self.name, self.log = name, log

    def wait_stream(self, other):
        self.log.append(f"{self.name} waits for {other.name}")

    def wait_event(self, event):
        if event.of is not None:  # CUDA goes on at once where nothing was recorded
            self.log.append(f"{self.name} waits for {event.of}")

    def synchronize(self):
        self.log.append(f"the host waits for {self.name}")


class Event:
    """Stands for what a stream was told when it was recorded."""

    log = None

    def __init__(self):
        self.of = None

    def record(self, stream):
        self.of = f"{stream.name} until {len(self.log)}"

    def synchronize(self):
        if self.of is not None:
            self.log.append(f"the host waits for {self.of}")


class Target:
    def __init__(self, log):
        self.log = log

    def copy_(self, source, non_blocking):
        assert non_blocking
        self.log.append(f"copy {source}")


@pytest.fixture
def log(monkeypatch):
    told = []
    current = Stream("current", told)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream("side", told))
    monkeypatch.setattr(torch.cuda, "Event", type("Logged", (Event,), {"log": told}))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current)

    @contextmanager
    def within(stream):
        assert stream.name == "side"
        yield

    monkeypatch.setattr(torch.cuda, "stream", within)
    return told


def test_what_computes_from_a_slot_waits_for_its_copies_alone(log):
    copies = SideCopies(GPU, 2)
    for slot, source in ((0, "a"), (0, "b"), (1, "c")):
        copies.start(slot, source, Target(log))
    copies.use(0)
    assert log == ["side waits for current", "copy a", "copy b", "copy c", "current waits for side until 3"]


def test_a_copy_comes_after_who_has_used_its_slot_and_others_do_not_wait(log):
    copies = SideCopies(GPU, 2)
    copies.start(0, "a", Target(log))
    copies.use(0)
    copies.release(0)
    del log[:]
    copies.start(1, "b", Target(log))
    for source in "cd":
        copies.start(0, source, Target(log))
    assert log == ["copy b", "side waits for current until 4", "copy c", "copy d"]


def test_a_slot_is_released_when_its_copies_have_left_the_host(log):
    copies = SideCopies(GPU, 2)
    copies.release(1)
    assert log == ["side waits for current"], "nothing was copied into it"
    copies.start(0, "a", Target(log))
    copies.release(0)
    copies.close()
    assert log[-2:] == ["the host waits for side until 2", "the host waits for side"]


def test_elsewhere_copies_are_over_at_once():
    copies, target = SideCopies(torch.device("cpu"), 1), torch.zeros(2)
    copies.start(0, torch.ones(2), target)
    copies.use(0)
    copies.release(0)
    copies.close()
    assert target.tolist() == [1, 1]
