"""What a full shard evicts for room."""

import pytest
import torch

from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.selectors import Fifo, Prioritized, TopK, Uniform
from gmi_drl.replay.shards import AloneLink, open_shards
from tests.replay.shards.shard_ranks import SIGNATURE, trajectories


def full(remover, priorities=1.0):
    """Shards of one rank with 8 trajectories, all there is room for."""
    shards = open_shards(AloneLink(), SIGNATURE, trajectories=8, steps=4, placement="cpu", remover=remover)
    shards.insert(trajectories(list(range(8))), priorities=priorities)
    return shards


def kept(shards):
    """The trajectories that are there."""
    return (shards.shard.keys > 0).nonzero().flatten().tolist()


@pytest.mark.parametrize("remover", [Fifo, Uniform])
def test_what_is_evicted_while_somebody_reads_is_waited_for(remover):
    """As while the shards are saved: each look for room evicted as many again."""
    shards = full(remover())
    blocks = shards.shard.storage.blocks
    ticket = blocks.begin_reading()
    with pytest.raises(ReplayTimeoutError):
        shards.allocate(2, timeout_s=0.1)
    assert shards.shard.table.size == 6
    blocks.end_reading(ticket)
    shards.allocate(2, timeout_s=0.0)
    assert shards.shard.table.size == 6


@pytest.mark.parametrize("remover", [lambda: TopK(1), Prioritized])
def test_removers_evict_one_by_one_if_they_cannot_select_as_many_at_once(remover):
    shards = full(remover(), torch.tensor([0.0, 0, 9, 0, 0, 0, 0, 0]))
    shards.allocate(2, timeout_s=0.0)
    assert shards.shard.table.size == 6 and 2 not in kept(shards)


@pytest.mark.parametrize("remover", [lambda: TopK(1), Prioritized])
def test_what_a_list_holds_is_passed_by_one_by_one(remover):
    shards = full(remover(), torch.tensor([0.0, 0, 9, 8, 0, 0, 0, 0]))
    held = torch.tensor([2])
    shards.shard.hold(held)
    shards.allocate(2, timeout_s=0.0)
    assert shards.shard.table.size == 6 and 2 in kept(shards) and 3 not in kept(shards)
    shards.shard.release(held)
    shards.allocate(1, timeout_s=0.0)
    assert shards.shard.table.size == 5 and 2 not in kept(shards)
    shards.shard.hold(torch.tensor(kept(shards)))
    with pytest.raises(ReplayTimeoutError, match="of 8 5 are there, 5 of all wait to be collected"):
        shards.allocate(1, timeout_s=0.0)
