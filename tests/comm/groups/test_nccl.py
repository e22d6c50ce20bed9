"""The group that sums by NCCL, with gloo in NCCL's place: its own calls, and what becomes of one that never ends."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest
import torch

from gmi_drl.comm import nccl_communicator as communicator
from gmi_drl.comm import open_group
from gmi_drl.comm.groups import nccl
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.reductions.nccl import NcclReduction
from gmi_drl.comm.rendezvous import Rendezvous, RendezvousPoints
from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.layout.reductions import NCCL_FLAT
from tests.comm.gloo_as_nccl import GlooAsNccl
from tests.comm.ranks import started
from tests.comm.reductions.test_device_aware import contract

EACH_ON_ITS_OWN = [[0], [1]]
PREPARE, PROCESS_GROUP = communicator.prepare, communicator.process_group


@pytest.fixture(autouse=True)
def serve(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setattr(communicator, "version", lambda: (2, 30, 7))
    monkeypatch.setattr(communicator, "prepare", lambda device, most, instead: None)
    monkeypatch.setattr(communicator, "process_group", GlooAsNccl)


@pytest.mark.parametrize("mapping", [[[0, 1]], [[0], [2, 1]]], ids=str)
def test_the_contract(mapping):
    with started(mapping, ["NCCL-flat"], contract) as (answers, _):
        ranks = answers("NCCL-flat")
    for key in ("sums", "again"):
        assert len({str(rank[key]) for rank in ranks}) == 1
    assert all(rank["zeroed"] and rank["gathered"] and rank["rounds"] and rank["waited"] for rank in ranks)
    ((said, kept),) = {(rank["refused"][0], tuple(rank["refused"][1])) for rank in ranks}
    assert "rank 0 reduces 3 numbers" in said and "rank 1 reduces 7 numbers" in said and kept == (1.0,)


class NeverDone:
    """The work of a rank whose peer has ended, and an abort that does not return either."""

    def is_completed(self):
        return False

    def wait(self):
        raise AssertionError("only what has ended is asked how")


def test_a_dead_peer_is_named_although_neither_its_sum_nor_the_abort_ever_returns(monkeypatch):
    monkeypatch.setattr(GlooAsNccl, "allreduce", lambda self, vectors: NeverDone())
    monkeypatch.setattr(GlooAsNccl, "abort", lambda self: time.sleep(1000))
    monkeypatch.setattr(communicator, "_ABORT_S", 0.2)

    def until_lost(reduction):
        try:
            reduction.reduce(torch.ones(1000))
        except GmiError as error:
            return type(error).__name__, str(error)

    with started([[0, 1, 2]], ["NCCL-flat"], until_lost) as (answers, processes):
        time.sleep(1)
        killed = time.monotonic()
        processes[2].kill()
        for error, message in answers("NCCL-flat", (0, 1)):
            assert error == "PeerDiedError" and f"rank 2 (process {processes[2].pid})" in message
        assert time.monotonic() - killed < 30


def both(live):
    """What two threads, each a rank, make of their group."""
    points = RendezvousPoints(NCCL_FLAT, EACH_ON_ITS_OWN, 1)

    def one(rank):
        return live(nccl.NcclGroup(Membership(rank, EACH_ON_ITS_OWN, hang_s=20), points[rank]))

    with closing(points), ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, (0, 1)))


def test_the_communicator_ends_with_the_group():
    def live(group):
        reduction = NcclReduction(group, "cpu")
        made = group._nccl
        with pytest.raises(UsageError, match="has a reduction already"):
            NcclReduction(group, "cpu")
        reduction.reduce(vector := torch.ones(3))
        group.barrier()
        group.close()
        return made.is_aborted, vector.tolist()

    assert both(live) == [(True, [2.0] * 3)] * 2


def test_what_nccl_says_is_told_with_the_remedy(monkeypatch):
    def fails(self, device):
        raise RuntimeError("ncclInvalidUsage: Duplicate GPU detected")

    monkeypatch.setattr(GlooAsNccl, "eager_connect_single_device", fails)

    def live(group):
        with pytest.raises(MachineError, match=r"cannot connect the ranks: ncclInvalidUsage.*such as MPR-shm"):
            NcclReduction(group, "cpu")
        group.close()

    both(live)


def test_a_machine_that_cannot_is_refused_before_anybody_is_waited_for(monkeypatch):
    member, rendezvous = Membership(0, [[0, 1]]), Rendezvous(segment=0, store=0)
    monkeypatch.setattr(communicator, "version", lambda: (2, 29, 7))
    with pytest.raises(MachineError, match=r"NCCL 2\.29\.7 takes one rank of a GPU, 2 need 2\.30.*such as MPR-shm"):
        open_group(NCCL_FLAT, member, rendezvous)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    with pytest.raises(MachineError, match="torch has no NCCL: use another reduction, such as MPR-shm"):
        open_group(NCCL_FLAT, member, rendezvous)


def test_an_old_nccl_takes_one_rank_of_each_gpu(monkeypatch):
    monkeypatch.setattr(communicator, "version", lambda: (2, 20, 5))
    communicator.check(1, "TCP")


@pytest.mark.parametrize("before", ["0", None])
def test_torch_makes_no_watchdog_for_it_and_does_for_others(monkeypatch, before):
    class Made:
        class Options:
            pass

        def __init__(self, store, rank, size, options):
            self.given = store, rank, size, options._timeout, os.environ["TORCH_NCCL_BLOCKING_WAIT"]

    monkeypatch.setattr(torch.distributed, "ProcessGroupNCCL", Made, raising=False)
    monkeypatch.delenv("TORCH_NCCL_BLOCKING_WAIT", raising=False)
    if before is not None:
        monkeypatch.setenv("TORCH_NCCL_BLOCKING_WAIT", before)
    assert PROCESS_GROUP("store", 1, 2).given == ("store", 1, 2, timedelta(seconds=5), "1")
    assert os.environ.get("TORCH_NCCL_BLOCKING_WAIT") == before


def test_several_ranks_of_a_gpu_are_allowed_and_kept_small_unless_the_user_says_otherwise(monkeypatch):
    for name in ("NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_MAX_CTAS", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "")  # so that it is taken away again
        monkeypatch.delenv(name)
    PREPARE(torch.device("cuda:0"), 1, "TCP")
    assert "NCCL_MULTI_RANK_GPU_ENABLE" not in os.environ and os.environ["NCCL_SOCKET_IFNAME"] == "lo"
    monkeypatch.setenv("NCCL_MAX_CTAS", "2")
    PREPARE(torch.device("cuda:0"), 2, "TCP")
    assert (os.environ["NCCL_MULTI_RANK_GPU_ENABLE"], os.environ["NCCL_MAX_CTAS"]) == ("1", "2")
    with pytest.raises(UsageError, match="NCCL works on GPUs, not on cpu: use TCP"):
        PREPARE(torch.device("cpu"), 1, "TCP")
