from contextlib import closing

import pytest
import torch

from gmi_drl.comm.baselines.torch_group import TorchGroup
from gmi_drl.comm.baselines.torch_reduction import TorchReduction
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.rendezvous import RendezvousPoints
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.layout.reductions import TORCH
from tests.comm.ranks import started


def sums(reduction):
    """What a sum calls, and what torch knows of the group."""
    calls, all_reduce = [], torch.distributed.all_reduce
    torch.distributed.all_reduce = lambda *args, **more: calls.append(len(args[0])) or all_reduce(*args, **more)
    reduction.reduce(vector := torch.arange(3.0))
    return vector.tolist(), calls, torch.distributed.is_initialized()


def test_sums_go_through_torch_and_its_default_group_is_left_alone():
    with started([[0, 1]], ["torch"], sums) as (answers, _):
        assert answers("torch") == [([0.0, 2.0, 4.0], [3], False)] * 2


@pytest.fixture
def alone():
    """A group that has nobody to wait for."""
    with (
        closing(RendezvousPoints(TORCH, [[0]], 1)) as points,
        closing(TorchGroup(Membership(0, [[0]]), points[0])) as group,
    ):
        yield group


def test_nccl_is_refused_where_it_cannot_be(alone, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    with pytest.raises(MachineError, match="no NCCL: use MPR-gloo"):
        TorchReduction(alone, "cuda:0")
    alone._mapping = [[0, 1]]
    with pytest.raises(UsageError, match="needs a GPU for each GMI, as NCCL does, not 2 on one: use MPR-shm"):
        TorchReduction(alone, "cuda:0")


class OnAGpu:
    """What NCCL gives for a sum that is under way."""

    device = torch.device("cuda")

    def __init__(self):
        self.polls, self.waits = 0, 0

    def is_completed(self):
        self.polls += 1
        return self.polls > 2

    def wait(self):
        self.waits += 1


def test_a_sum_on_a_gpu_is_asked_for_and_not_waited_for(alone, monkeypatch):
    work = OnAGpu()
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda vector, **more: work)
    alone._start(work).wait()
    assert (work.polls, work.waits) == (3, 1)
