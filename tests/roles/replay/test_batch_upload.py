"""Batches go to a device through memory of their own."""

from types import SimpleNamespace

import torch

from gmi_drl.roles.replay import batch_upload
from gmi_drl.roles.replay.batch_upload import BatchUpload


class FakeUpload:
    """Notes what is asked of it; a copy is done when `wait` is called, as one by a GPU may be."""

    def __init__(self):
        self.calls, self._copies = [], []

    def start(self, source, target):
        self.calls.append(source.data_ptr())
        self._copies.append((source, target))

    def wait(self):
        self.calls.append("wait")
        for source, target in self._copies:
            target.copy_(source)
        self._copies.clear()


def test_on_a_cpu_a_batch_is_there_at_once():
    source, target = {"a": torch.arange(3.0)}, {"a": torch.zeros(3)}
    BatchUpload(torch.device("cpu")).start(source, target)
    assert torch.equal(target["a"], source["a"])


def test_a_gpus_batches_take_turns_in_pinned_memory(monkeypatch):
    made, empty = [], torch.empty

    def pinned(shape, dtype, pin_memory):
        made.append(pin_memory)
        return empty(shape, dtype=dtype)

    monkeypatch.setattr(batch_upload, "Upload", FakeUpload)
    monkeypatch.setattr(batch_upload.torch, "empty", pinned)
    upload = BatchUpload(SimpleNamespace(type="cuda"))
    first, second = torch.zeros(3), torch.zeros(3)
    fields = {"a": torch.arange(3.0)}
    upload.start(fields, {"a": first})
    fields["a"].fill_(7)  # a batch may be written over at once
    upload.start(fields, {"a": second})
    upload._upload.wait()
    assert first.tolist() == [0, 1, 2] and second.tolist() == [7, 7, 7]
    _, place, _, again, _ = upload._upload.calls
    assert made == [True] and place == again
    upload.start({"a": torch.arange(5)}, {"a": torch.zeros(5, dtype=torch.int64)})
    assert len(made) == 2
