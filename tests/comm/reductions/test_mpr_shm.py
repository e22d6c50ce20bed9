import mmap
import os
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gmi_drl.comm import open_group
from gmi_drl.comm.groups.shared_memory import SharedMemoryGroup
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory import cuda_context, pinned
from gmi_drl.comm.memory.segment import LINE_BYTES, STAGING_BYTES, create_segment, first_slot
from gmi_drl.comm.partition import shard_bounds
from gmi_drl.comm.reductions.mpr_shm import SharedMemoryReduction
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.errors import GmiWarning, MachineError, PeerSilentError, UsageError
from gmi_drl.layout.reductions import MPR_SHM


@pytest.fixture
def alone():
    fd = create_segment(1, 4000)
    yield SharedMemoryReduction(SharedMemoryGroup(Membership(0, [range(1)]), Rendezvous(segment=fd)))
    os.close(fd)


@given(numel=st.integers(0, 10**7), size=st.integers(1, 300))
def test_shards_cover_all_disjoint_in_order(numel, size):
    bounds = [shard_bounds(numel, size, rank) for rank in range(size)]
    assert bounds[0][0] == 0 and bounds[-1][1] == numel
    assert all(end == start for (_, end), (start, _) in pairwise(bounds))
    assert all(start <= end for start, end in bounds)
    assert all(start % 32 == 0 or start == numel for start, _ in bounds)


def test_a_bucket_fills_at_most_the_slot(alone):
    with pytest.raises(UsageError, match=r"1025 numbers.*slot of 1024"):
        alone.bucket(1025)
    bucket = alone.bucket(1024)
    alone.group.close()
    assert bucket.sum() == 0  # readable after the end


def test_a_part_of_the_bucket_can_be_reduced(alone):
    bucket = alone.bucket(100).fill_(3.0)
    alone.reduce(bucket[:50])
    assert bucket.tolist() == [3.0] * 100


def test_a_tensor_that_requires_grad_can_be_reduced(alone):
    weight = torch.ones(5, requires_grad=True)
    alone.reduce(weight)
    assert weight.tolist() == [1.0] * 5


def test_a_gpu_whose_driver_does_not_register_the_slot_reduces_all_the_same(monkeypatch):
    refusing = SimpleNamespace(cuMemHostRegister_v2=lambda *given: 801, cuGetErrorName=lambda *given: 0)
    monkeypatch.setattr(pinned, "make_current", lambda: None)
    for module in (cuda_context, pinned):
        monkeypatch.setattr(module, "driver", lambda: refusing)
    fd = create_segment(1, 4000)
    with pytest.warns(GmiWarning, match="does not register memory of this host .error 801., so copies .* are slower"):
        reduction = SharedMemoryReduction(SharedMemoryGroup(Membership(0, [range(1)]), Rendezvous(segment=fd)), "cuda")
    reduction.group.close()
    os.close(fd)


def test_other_processors_are_sent_to_gloo(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(MachineError, match="riscv64: use MPR-gloo"):
        open_group(MPR_SHM, Membership(0, [range(2)]), Rendezvous(segment=0))


@pytest.mark.parametrize("size", [1, 2, 31, 32])  # with 32 the table takes more than a page
def test_slots_are_pages_that_nobody_else_has(size, monkeypatch):
    """CUDA registers whole pages."""
    monkeypatch.setattr("gmi_drl.comm.groups.shared_memory.RankTable", lambda *given: None)
    fd = create_segment(size, 5000)
    group = SharedMemoryGroup(Membership(0, [range(size)]), Rendezvous(segment=fd))
    with open(f"/proc/self/fd/{fd}", "rb") as segment:
        assert segment.seek(0, os.SEEK_END) == first_slot(size) + size * (slot_bytes(group) + STAGING_BYTES)
    assert first_slot(size) >= LINE_BYTES * (1 + size) and first_slot(size) % mmap.PAGESIZE == 0
    assert slot_bytes(group) >= 5000 and slot_bytes(group) % mmap.PAGESIZE == 0
    for rows in (group.rows.slots, group.rows.staging):
        assert [row.data_ptr() % mmap.PAGESIZE for row in rows] == [0] * size
    os.close(fd)


def slot_bytes(group):
    return 4 * group.rows.slots.shape[1]


def test_a_group_has_one_reduction(alone):
    with pytest.raises(UsageError, match="has a reduction already"):
        SharedMemoryReduction(alone.group)


def test_a_peer_that_never_comes_is_silent():
    fd = create_segment(2, 4000)
    with pytest.raises(PeerSilentError, match="rank 1"):
        SharedMemoryGroup(Membership(0, [range(2)], hang_s=0.1), Rendezvous(segment=fd))
    os.close(fd)
