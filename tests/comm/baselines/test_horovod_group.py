"""Horovod in processes that are there already; the contract tests run over it, too."""

import os
from contextlib import ExitStack, closing

import pytest
import torch

pytest.importorskip("horovod.torch", reason="needs Horovod: docs/guides/horovod.md")

from gmi_drl.comm import open_group
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.reductions.mpr_gloo import GlooReduction
from gmi_drl.comm.rendezvous import RendezvousPoints
from gmi_drl.errors import UsageError
from gmi_drl.layout.reductions import HOROVOD
from tests.comm.ranks import started

MAPPING = [[0, 1]]


def sharing(second_spot, other, later_spot):
    """What comes of a second group of the same ranks, of one in another order, and of one after all were closed."""

    def sums(group):
        GlooReduction(group).reduce(vector := torch.ones(5))
        return vector.unique().tolist()

    def job(reduction):
        rank, said = reduction.group.rank, []
        with closing(open_group(HOROVOD, Membership(rank, MAPPING), second_spot)) as second:
            said += [sums(second), sums(reduction.group)]
        said.append(sums(reduction.group))
        with pytest.raises(UsageError) as caught:
            open_group(HOROVOD, Membership(1 - rank, MAPPING), other)
        said.append(str(caught.value))
        reduction.group.barrier()
        reduction.group.close()
        with closing(open_group(HOROVOD, Membership(1 - rank, MAPPING), later_spot)) as later:
            said.append(sums(later))
            later.barrier()
        return said

    return job


def test_groups_of_the_same_ranks_share_horovod_and_others_are_refused():
    with ExitStack() as made:
        points = [
            made.enter_context(closing(RendezvousPoints(HOROVOD, MAPPING, 1)))[0] for _ in range(3)
        ]  # alike for both ranks
        answers, _ = made.enter_context(started(MAPPING, ["horovod"], sharing(*points)))
        for second, first, again, refused, later in answers("horovod"):
            assert second == first == again == later == [2.0]
            assert "Horovod knows one group in a process" in refused


def calls(reduction):
    import horovod.torch as hvd

    reduction.reduce(vector := torch.arange(3.0))
    return vector.tolist(), hvd.rank(), hvd.size(), os.environ["HOROVOD_CONTROLLER"]


def test_sums_are_horovods():
    with started(MAPPING, ["horovod"], calls) as (answers, _):
        assert answers("horovod") == [([0.0, 2.0, 4.0], rank, 2, "gloo") for rank in range(2)]
