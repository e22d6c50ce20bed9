"""Lists hold what they name, until each was ended."""

import torch

from gmi_drl.replay.shards import AloneLink, Fifo, open_shards
from gmi_drl.replay.shards.lists import Lists
from gmi_drl.replay.shards.requests import Request
from tests.replay.shards.shard_ranks import SIGNATURE, trajectories


def test_equal_lists_are_ended_one_by_one_and_leave_nothing():
    shards = open_shards(AloneLink(), SIGNATURE, trajectories=3, steps=4, placement="cpu")
    shards.insert(trajectories([1, 2, 3]))
    lists, indices = Lists(shards.shard, 0), torch.tensor([1, 1])

    def reading(wanted):
        request = Request(wanted, ("a",), None, False)
        return lists.reading(request, request.by_owner(2, 3)[0])

    for _ in range(2):
        shards.shard.hold(indices)
        lists.keep(indices)
    lists.end(torch.tensor([0]))
    assert len(lists) == 1
    lists.end(indices)
    assert len(lists) == 1
    with reading(indices):
        assert int(shards.shard._holds[1]) == 2
    with reading(torch.tensor([2, 5])):
        assert shards.shard._holds.tolist() == [0, 2, 1]
    lists.end(indices)
    lists.end(indices)
    assert len(lists) == 0
    assert shards.shard._holds.tolist() == [0, 0, 0]
    assert len(shards.collect(shards.select(3, Fifo()))[1]) == 3
