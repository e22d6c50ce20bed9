"""How gradients leave a GPU and come back, where nothing computes."""

from contextlib import ExitStack, closing

import pytest
import torch
from meta_worlds import meta_replica, meta_task
from told import META, Told, meta_device

from gmi_drl.comm import open_group, open_reduction
from gmi_drl.comm.reductions.mpr_gloo import GlooReduction
from gmi_drl.comm.reductions.mpr_shm import SharedMemoryReduction
from gmi_drl.comm.spots import Spots
from gmi_drl.membership import Membership
from tests.comm.ranks import METHODS, legal

NUMEL = 1000


ALONE = [[0]]
STAGED = [name for name in METHODS if name in legal(ALONE) and METHODS[name].meets_in in ("segment", "links")]


@pytest.fixture
def opened_group(tmp_path):
    """Opens the group of a method, of one rank."""
    with ExitStack() as stack:

        def open_one(name):
            spots = stack.enter_context(closing(Spots(METHODS[name], ALONE, 4 * 1024 * 1024, tmp_path / name)))
            return stack.enter_context(closing(open_group(METHODS[name], Membership(0, ALONE), spots[0])))

        yield open_one


@pytest.fixture
def group(opened_group):
    return opened_group("MPR-shm")


@pytest.mark.parametrize("name", STAGED)
def test_a_bucket_goes_through_its_slot_once_each_way_without_a_wait(opened_group, name):
    group = opened_group(name)
    with meta_device() as watch:
        reduction = open_reduction(METHODS[name], group, META)
        bucket = reduction.bucket(NUMEL)
        with watch.count() as told:
            reduction.reduce(bucket)
        assert told == Told(to_host=1, to_host_bytes=4 * NUMEL, to_device=1, to_device_bytes=4 * NUMEL)
        with watch.count() as told:
            reduction.reduce(torch.zeros(3, device=META))
    assert told.waits == 0 and told.to_host_bytes == told.to_device_bytes == 12


def test_each_mini_batch_adds_the_staging_of_its_bucket(group):
    with meta_device() as watch:
        short = {"horizon": 2, "epochs": 2, "minibatches": 2}
        replica = meta_replica(watch, meta_task(watch, "ant"), SharedMemoryReduction(group, META), **short)
        order = torch.arange(replica.slot.rollout.transitions, device=META)
        with watch.count() as told:
            replica.learner.ppo.update(replica.slot.rollout, order)
    size = replica.learner.ppo.flat.bucket.nbytes
    assert (told.to_host, told.to_host_bytes, told.to_device, told.to_device_bytes) == (4, 4 * size, 4, 4 * size)
    assert told.waits == told.allocations == 0


def test_gloo_is_waited_for_on_the_way_to_the_host_alone():
    class Alone:
        def sum(self, vector):
            assert not vector.is_meta

    with meta_device() as watch:
        reduction = GlooReduction(Alone(), META)
        bucket = reduction.bucket(NUMEL)
        with watch.allow(1), watch.count() as told:
            reduction.reduce(bucket)
        assert told == Told(waits=1, to_host=1, to_host_bytes=4 * NUMEL, to_device=1, to_device_bytes=4 * NUMEL)
        for numel in (3, 2 * NUMEL):  # the memory that they go through is made for any
            with watch.allow(1), watch.count() as told:
                reduction.reduce(torch.zeros(numel, device=META))
            assert told.to_host_bytes == told.to_device_bytes == 4 * numel
