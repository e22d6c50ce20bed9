import os

import pytest
import torch

from gmi_drl.comm.groups.shared_memory import SharedMemoryGroup
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.segment import create_segment
from gmi_drl.comm.reductions.mpr_gloo import GlooReduction
from gmi_drl.comm.reductions.mpr_shm import SharedMemoryReduction
from gmi_drl.comm.rendezvous import Rendezvous

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda:0")
NUMEL = 1 << 20


@pytest.fixture
def group():
    fd = create_segment(1, 4 * NUMEL)
    group = SharedMemoryGroup(Membership(0, [range(1)]), Rendezvous(segment=fd))
    yield group
    group.close()
    os.close(fd)


def busy(vector, value):
    """Write a value, long after the host has gone on."""
    for number in range(200):
        vector.fill_(number)
    vector.fill_(value)


def test_a_bucket_is_in_its_slot_when_peers_may_read_it_and_back_when_it_is_read(group):
    reduction = SharedMemoryReduction(group, DEVICE)
    bucket, seen = reduction.bucket(NUMEL), []
    sync = group.sync
    group.sync = lambda call: (
        seen.append(group.rows.slots[0].unique().tolist()),
        group.rows.slots[0].add_(0.5),
        sync(call),
    )
    for value in range(4):
        busy(bucket, value)
        reduction.reduce(bucket)
        assert seen[-2] == [value], "at the first barrier"
        assert (bucket == value + 1).all(), "both barriers added a half"


def test_a_bucket_goes_through_gloo_and_back():
    class Twice:
        def sum(self, vector):
            vector.mul_(2)

    reduction = GlooReduction(Twice(), DEVICE)
    bucket = reduction.bucket(NUMEL)
    for value in range(4):
        busy(bucket, value)
        reduction.reduce(bucket)
        other = torch.full((3,), float(value), device=DEVICE)
        reduction.reduce(other)
        assert (bucket == 2 * value).all() and other.tolist() == [2.0 * value] * 3
