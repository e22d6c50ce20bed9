"""Packed rows are the same by torch, as for GPUs, and by numpy, and come out where they belong."""

import numpy as np
import pytest
import torch

from gmi_drl.replay.rows import Rows
from gmi_drl.replay.shards import AloneLink, open_shards
from gmi_drl.replay.shards.packing import HostPacking, Packing, RowLayout, Trajectories, packing_for
from gmi_drl.replay.shards.requests import Owned
from tests.replay.shards.shard_ranks import SIGNATURE, trajectories

PARTS = {
    "whole": (4, None, [[100, 101, 102, 103], [300, 301, 0, 0]], [4, 2]),
    "windows": (2, [1, 0], [[101, 102], [300, 301]], [2, 2]),
    "short windows": (3, [2, 0], [[102, 103, 0], [300, 301, 0]], [2, 2]),
}


@pytest.mark.parametrize("kind", [Packing, HostPacking])
@pytest.mark.parametrize("part", PARTS)
def test_rows_come_out_where_they_belong(kind, part):
    steps, starts, tags, took = PARTS[part]
    shards = open_shards(AloneLink(), SIGNATURE, trajectories=3, steps=4, placement="cpu")
    shards.insert(trajectories([1, 2, 3]), lengths=torch.tensor([4, 4, 2]))
    packing, layout = kind(shards.shard), RowLayout(SIGNATURE, ("b", "a"), steps)
    local, places = np.array([0, 2, 0]), np.array([3, 0, 2])
    starts = None if starts is None else np.array([*starts, starts[0]])
    owned = Owned(places, local, shards.shard.lengths.numpy()[local], starts)
    packed = packing.pack(layout, owned, "test")
    assert packed.shape == (4 + 3 * steps * 2,)  # lengths end at an even word; a step has a word in each column
    target = Trajectories(Rows.empty(SIGNATURE, (4, steps), columns=("a", "b")))
    target["tag"][:], lengths = 7, np.full(4, 9)
    packing.unpack(layout, packed, places, target, lengths)
    assert target["tag"].tolist() == [tags[1], [7] * steps, tags[0], tags[0]]
    assert torch.equal(target["value"][[3, 0], :, 0], torch.tensor(tags).float())
    assert lengths.tolist() == [took[1], 9, took[0], took[0]]


def test_numpy_packs_what_lies_on_cores():
    shard = open_shards(AloneLink(), SIGNATURE, trajectories=1, steps=1, placement="cpu").shard
    assert type(packing_for(shard, torch.device("cpu"))) is HostPacking
    assert type(packing_for(shard, torch.device("meta"))) is Packing
