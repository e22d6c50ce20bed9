"""Updates wait for the next call of all ranks, and none is lost."""

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.shards import AloneLink, open_shards
from tests.replay.shards.shard_ranks import SIGNATURE, on_ranks, trajectories


def test_an_update_that_is_noted_while_another_thread_begins_a_call_is_kept(monkeypatch):
    shards = open_shards(AloneLink(), SIGNATURE, trajectories=2, steps=4, placement="cpu")
    shards.insert(trajectories([1, 2]))
    stack = torch.stack

    def interrupted(*given):
        monkeypatch.setattr(torch, "stack", stack)
        shards.sync()
        return stack(*given)

    monkeypatch.setattr(torch, "stack", interrupted)
    shards.update(torch.tensor([1]), 7.0)
    shards.sync()
    assert shards.shard.chances.priorities[:2].tolist() == [1.0, 7.0]


def test_updates_of_a_call_that_was_refused_come_with_the_next_in_order():
    def job(shards):
        shards.insert(trajectories([1]))
        shards.update(torch.tensor([8]), 3.0)
        shards.update(torch.tensor([8]), 4.0)
        with pytest.raises(UsageError):
            shards.select(1 + shards.rank)
        shards.sync()
        return shards.shard.chances.priorities[0].item()

    assert on_ranks(2, job) == [1.0, 4.0]


def test_a_call_in_order_writes_no_text_of_its_list(monkeypatch):
    """A text of a long list takes longer than a small collection."""
    shards = open_shards(AloneLink(), SIGNATURE, trajectories=2, steps=4, placement="cpu")
    indices = shards.insert(trajectories([1, 2]))
    written = []
    monkeypatch.setattr(torch.Tensor, "__format__", lambda self, spec: written.append(self) or "")
    monkeypatch.setattr(torch.Tensor, "__repr__", lambda self: written.append(self) or "")
    shards.collect(indices, window=(torch.tensor([0, 0]), 2))
    assert not written
