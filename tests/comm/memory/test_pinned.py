import torch

from gmi_drl.comm.memory import pinned
from gmi_drl.comm.memory.pinned import Upload, pinned_zeros

CPU = torch.device("cpu")


def test_memory_is_pinned_only_for_a_gpu():
    memory = pinned_zeros(2, 3, device=CPU)
    assert memory.shape == (2, 3) and memory.dtype == torch.float32 and not memory.any() and not memory.is_pinned()


def test_on_a_cpu_an_upload_is_over_at_once():
    source, target, copies = pinned_zeros(3, device=CPU), torch.ones(3), Upload()
    for value in (0.0, 5.0):
        copies.wait()
        source.fill_(value)
        copies.start(source, target)
        assert target.tolist() == [value] * 3


class FakeEvent:
    """Stands in for torch.cuda.Event where there is no CUDA, and keeps a log."""

    def __init__(self):
        self.log = []

    def record(self, stream):
        self.log.append(f"record on {stream}")

    def synchronize(self):
        self.log.append("wait")


class OnGpu:
    """Stands in for a tensor on a GPU."""

    device = torch.device("cuda:0")

    def __init__(self, log):
        self.log = log

    def copy_(self, source, non_blocking):
        self.log.append("copy, not waited for" if non_blocking else "copy")


def test_on_a_gpu_an_event_follows_each_copy_and_is_what_is_waited_for(monkeypatch):
    event = FakeEvent()
    monkeypatch.setattr(pinned.torch.cuda, "Event", lambda: event)
    monkeypatch.setattr(pinned.torch.cuda, "current_stream", lambda device: f"the stream of {device}")
    copies, target = Upload(), OnGpu(event.log)
    copies.wait()
    assert event.log == [], "nothing was copied yet"
    for _ in range(2):
        copies.start(pinned_zeros(3, device=CPU), target)
        copies.wait()
    assert event.log == ["copy, not waited for", "record on the stream of cuda:0", "wait"] * 2
