"""Who speaks to whom in a reduction between devices, and how many bytes: counted by the sockets."""

from itertools import pairwise

import pytest
import torch

from gmi_drl.comm.partition import shard_bounds
from tests.comm.ranks import legal, started

NUMEL = 10_007
SHAPES = {
    "2x2": [[0, 1], [2, 3]],
    "3x2": [[0, 1], [2, 3], [4, 5]],
    "3x3": [[0, 1, 2], [3, 4, 5], [6, 7, 8]],
    "2x3": [[0, 1, 2], [3, 4, 5]],
    "4x4": [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]],
    "uneven": [[0, 1], [2, 3, 4]],
}
"""Those of the paper's Table 7 among them."""


def lengths(numel, parts):
    return [last - first for first, last in (shard_bounds(numel, parts, part) for part in range(parts))]


def ring(*members, numel=NUMEL):
    """A ring's sum: all chunks but one in each of its two rounds, member i without i + 1 and then without i + 2."""
    size, chunks = len(members), lengths(numel, len(members))
    floats = [2 * numel - chunks[(i + 1) % size] - chunks[(i + 2) % size] for i in range(size)]
    return {(members[i], members[(i + 1) % size]): 4 * floats[i] for i in range(size)}


def row(*members):
    """A broadcast: the whole vector from each to the next."""
    return dict.fromkeys(pairwise(members), 4 * NUMEL)


def total(*parts):
    counted = {}
    for part in parts:
        for pair, count in part.items():
            counted[pair] = counted.get(pair, 0) + count
    return counted


def shards(*rings):
    numels = lengths(NUMEL, len(rings))
    return [ring(*members, numel=numel) for members, numel in zip(rings, numels, strict=True)]


FOUR_RINGS = [(j, 4 + j, 8 + j, 12 + j) for j in range(4)]


EXPECTED = {
    # The rings, their delegates' ring, each ring from its delegate on.
    ("2x2", "MRR"): total(ring(0, 2), ring(1, 3), ring(0, 3), row(0, 2), row(3, 1)),
    ("2x2", "HAR"): ring(0, 2),
    ("2x2", "SHARD"): total(*shards((0, 2), (1, 3))),
    ("3x2", "MRR"): total(ring(0, 2, 4), ring(1, 3, 5), ring(0, 3), row(0, 2, 4), row(3, 5, 1)),
    ("3x2", "HAR"): ring(0, 2, 4),
    ("3x2", "SHARD"): total(*shards((0, 2, 4), (1, 3, 5))),
    ("3x3", "MRR"): total(
        *(ring(0, 3, 6), ring(1, 4, 7), ring(2, 5, 8)), ring(0, 4, 8), *(row(0, 3, 6), row(4, 7, 1), row(8, 2, 5))
    ),
    ("3x3", "HAR"): ring(0, 3, 6),
    ("2x3", "HAR"): ring(0, 3),
    ("2x3", "SHARD"): total(*shards((0, 3), (1, 4), (2, 5))),
    ("4x4", "MRR"): total(
        *(ring(*members) for members in FOUR_RINGS),
        ring(0, 5, 10, 15),
        *(row(0, 4, 8, 12), row(5, 9, 13, 1), row(10, 14, 2, 6), row(15, 3, 7, 11)),
    ),
    ("4x4", "HAR"): ring(*FOUR_RINGS[0]),
    ("4x4", "SHARD"): total(*shards(*FOUR_RINGS)),
    ("uneven", "HAR"): ring(0, 2),
    ("uneven", "SHARD"): total(*shards((0, 2), (1, 3))),
}


def sent(reduction):
    vector = torch.ones(NUMEL)
    reduction.reduce(vector)
    reduction.group.barrier()  # which adds no bytes
    return reduction.group.link.sent, vector.unique().tolist()


@pytest.mark.parametrize("shape", SHAPES)
def test_bytes_per_link(shape):
    mapping = SHAPES[shape]
    names = [name for name in legal(mapping) if (shape, name) in EXPECTED]
    with started(mapping, names, sent) as (answers, processes):
        for name in names:
            routes, sums = zip(*answers(name), strict=True)
            assert total(*routes) == EXPECTED[shape, name]
            assert all(sum == [len(processes)] for sum in sums)


def test_a_ring_moves_what_is_known_of_rings():
    for members in ((0, 2), (0, 3, 6), (0, 1, 2, 3, 4)):
        assert sum(ring(*members).values()) == 2 * (len(members) - 1) * 4 * NUMEL
