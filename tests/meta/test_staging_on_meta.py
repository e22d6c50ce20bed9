"""How gradients leave a GPU and come back, where nothing computes."""

from contextlib import ExitStack, closing

import pytest
import torch
from meta_tasks import meta_replica, meta_task
from operation_counts import META, Counts, meta_device

from gmi_drl.comm import open_group, open_reduction
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.rank_slots import RowMemory
from gmi_drl.comm.reductions.ipc import IpcReduction
from gmi_drl.comm.reductions.mpr_gloo import GlooReduction
from gmi_drl.comm.reductions.mpr_shm import SharedMemoryReduction
from gmi_drl.comm.reductions.nccl import NcclReduction
from gmi_drl.comm.rendezvous import RendezvousPoints
from tests.comm.ranks import METHODS, legal

NUMEL = 1000


ALONE = [[0]]
STAGED = [name for name in METHODS if name in legal(ALONE) and METHODS[name].rendezvous_by in ("segment", "links")]


@pytest.fixture
def opened_group():
    """Opens the group of a method, of one rank."""
    with ExitStack() as stack:

        def open_one(name):
            points = stack.enter_context(closing(RendezvousPoints(METHODS[name], ALONE, 4 * 1024 * 1024)))
            return stack.enter_context(closing(open_group(METHODS[name], Membership(0, ALONE), points[0])))

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
        with watch.count() as counts:
            reduction.reduce(bucket)
        assert counts == Counts(to_host=1, to_host_bytes=4 * NUMEL, to_device=1, to_device_bytes=4 * NUMEL)
        with watch.count() as counts:
            reduction.reduce(torch.zeros(3, device=META))
    assert counts.waits == 0 and counts.to_host_bytes == counts.to_device_bytes == 12


def test_each_mini_batch_adds_the_staging_of_its_bucket(group):
    with meta_device() as watch:
        short = {"horizon": 2, "epochs": 2, "minibatches": 2}
        replica = meta_replica(watch, meta_task(watch, "ant"), SharedMemoryReduction(group, META), **short)
        order = torch.arange(replica.slot.rollout.transitions, device=META)
        with watch.count() as counts:
            replica.learner.updater.update(replica.slot.rollout, order)
    size = replica.learner.updater.flat.bucket.nbytes
    assert (counts.to_host, counts.to_host_bytes, counts.to_device, counts.to_device_bytes) == (
        4,
        4 * size,
        4,
        4 * size,
    )
    assert counts.waits == counts.allocations == 0


def test_gloo_is_waited_for_on_the_way_to_the_host_alone():
    class Alone:
        def sum(self, vector):
            assert not vector.is_meta

    with meta_device() as watch:
        reduction = GlooReduction(Alone(), META)
        bucket = reduction.bucket(NUMEL)
        with watch.allow(1), watch.count() as counts:
            reduction.reduce(bucket)
        assert counts == Counts(waits=1, to_host=1, to_host_bytes=4 * NUMEL, to_device=1, to_device_bytes=4 * NUMEL)
        for numel in (3, 2 * NUMEL):  # the memory that they go through is made for any
            with watch.allow(1), watch.count() as counts:
                reduction.reduce(torch.zeros(numel, device=META))
            assert counts.to_host_bytes == counts.to_device_bytes == 4 * numel


class Four:
    """Rank 1 of ranks whose rows are on the device."""

    rank, size = 1, 4

    def __init__(self):
        self.meetings = 0

    def share(self, device):
        slots, staging = torch.zeros(2, 4, NUMEL, device=device)
        return RowMemory([*slots], [*staging])

    def sync(self, call):
        self.meetings += 1


KERNELS = 3 + 1
"""Of one rank of four: its shard of the three others is added to the first, and the sum is copied to all at once."""


def test_within_a_gpu_each_rank_launches_as_many_kernels_as_there_are_ranks_and_copies_nothing():
    with meta_device() as watch:
        reduction = IpcReduction(Four(), META)
        bucket = reduction.bucket(NUMEL)
        for _ in range(2):
            with watch.count() as counts:
                reduction.reduce(bucket)
            assert counts == Counts(launches=KERNELS)
    assert reduction.group.meetings == 2 * 2


def test_what_lies_elsewhere_on_the_gpu_passes_through_it_in_pieces():
    with meta_device() as watch:
        reduction = IpcReduction(Four(), META)
        reduction.bucket(NUMEL)
        foreign, pieces = torch.zeros(2 * NUMEL + 1, device=META), 3
        with watch.count() as counts:
            reduction.reduce(foreign)
        of_one = 0  # the shard of rank 1 of a single number
        assert counts == Counts(launches=2 * (KERNELS + 2) + (of_one + 2))
        assert reduction.group.meetings == 2 * pieces


def test_what_lies_on_the_host_is_there_when_a_sum_within_a_gpu_returns():
    with meta_device() as watch:
        reduction = IpcReduction(Four(), META)
        with watch.allow(1), watch.count() as counts:
            reduction.reduce(torch.zeros(NUMEL))
    there = {"to_device": 1, "to_device_bytes": 4 * NUMEL}
    assert counts == Counts(launches=KERNELS, waits=1, to_host=1, to_host_bytes=4 * NUMEL, **there)


def test_nccl_sums_what_is_on_the_gpu_where_it_is():
    class Group:
        def connect(self, device):
            assert device == META

        def sum_on_gpu(self, vector):
            assert vector.is_meta

    with meta_device() as watch:
        reduction = NcclReduction(Group(), META)
        bucket = reduction.bucket(NUMEL)
        with watch.count() as counts:
            reduction.reduce(bucket)
        assert counts == Counts()
        with watch.allow(2), watch.count() as counts:
            reduction.reduce(torch.zeros(NUMEL))
    assert (counts.waits, counts.to_device_bytes, counts.to_host_bytes) == (2, 4 * NUMEL, 4 * NUMEL)
