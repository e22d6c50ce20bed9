"""The contract of a reduction, on ranks of several devices that share no memory between these."""

import hashlib
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest
import torch
from conftest import open_descriptors

from gmi_drl.comm.groups.device_aware import DeviceAwareGroup
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.collective_calls import REDUCE_SLOT, call_code
from gmi_drl.comm.reductions.mrr import MultiRingReduction
from gmi_drl.comm.rendezvous import RendezvousPoints
from gmi_drl.errors import GmiError, UsageError
from gmi_drl.layout.reductions import HAR, HOROVOD
from tests.comm.ranks import METHODS, legal, opened, started

MAPPINGS = ([[0, 1], [2, 3]], [[0], [1, 2, 3]], [[0, 1], [2, 3, 4]], [[0], [1]], [[3, 0], [2, 1]])
LENGTHS = (0, 1, 7, 114_121, 1_535_765)  # the slot has room for 120_000, the staging area for 131_072
BUCKET = 114_121
ROUNDS = 20


def numbers(rank, numel):
    return torch.randn(numel, generator=torch.Generator().manual_seed(rank))


def error_of(vector, size):
    """The largest, as a part of the largest sum."""
    exact = sum(numbers(rank, len(vector)).double() for rank in range(size))
    return ((vector - exact).abs().max() / exact.abs().max()).item() if len(vector) else 0.0


def reduced(reduction, vectors):
    """The worst error of their sums, and a digest of all."""
    digest, worst, group = hashlib.sha256(), 0.0, reduction.group
    for vector in vectors:
        vector.copy_(numbers(group.rank, len(vector)))
        reduction.reduce(vector)
        digest.update(vector.numpy().tobytes())
        worst = max(worst, error_of(vector, group.size))
    return worst, digest.hexdigest()


def refused(call):
    with pytest.raises(UsageError) as caught:
        call()
    return str(caught.value)


def rounds(reduction, bucket):
    """Whether sums are right where some ranks are late and others fill their bucket again at once."""
    group, right = reduction.group, True
    late = random.Random(group.rank)
    for number in range(ROUNDS):
        bucket.fill_(number * (group.rank + 1))
        time.sleep(late.choice((0, 0, 0.002)))
        reduction.reduce(bucket)
        if group.rank or number % 2:
            right &= bool((bucket == number * group.size * (group.size + 1) / 2).all())
    return right


def contract(reduction):
    group = reduction.group
    before = reduced(reduction, map(torch.empty, LENGTHS))  # where no bucket lies in a slot yet
    bucket = reduction.bucket(BUCKET)
    zeroed = not bucket.any().item()
    after = reduced(reduction, [bucket, *map(torch.empty, LENGTHS), bucket])
    ours = torch.full((3,), group.rank + 1e-9, dtype=torch.float64)
    gathered = group.gather(ours).equal(torch.arange(group.size).double()[:, None].expand(-1, 3) + 1e-9)
    time.sleep(0.1 * (group.rank == 0))
    arrived = time.monotonic()
    group.barrier()
    left = time.monotonic()
    kept = bucket.fill_(1.0)
    said = refused(lambda: reduction.reduce(kept[:3] if group.rank == 0 else torch.empty(7)))
    return {
        "sums": (before, after),
        "zeroed": zeroed,
        "gathered": bool(gathered),
        "barrier": (arrived, left),
        "refused": (said, kept.unique().tolist()),
        "rounds": rounds(reduction, bucket),
        "again": reduced(reduction, [bucket]),
        "waited": group.wait_s > 0,
        "foreign": refused(lambda: reduction.reduce(torch.zeros(8)[::2])),
        "values": refused(lambda: group.gather(torch.zeros(4))),
    }


@pytest.mark.parametrize("mapping", MAPPINGS, ids=str)
def test_the_contract(mapping):
    with started(mapping, legal(mapping), contract) as (answers, _):
        for name in legal(mapping):
            ranks = answers(name)
            for key in ("sums", "again"):
                assert len({str(rank[key]) for rank in ranks}) == 1, name  # bits
            worst = [error for error, _ in (*ranks[0]["sums"], ranks[0]["again"])]
            assert max(worst) < 1e-6, name
            assert all(rank["zeroed"] and rank["gathered"] and rank["rounds"] and rank["waited"] for rank in ranks), (
                name
            )
            assert min(rank["barrier"][1] for rank in ranks) >= max(rank["barrier"][0] for rank in ranks)
            ((said, kept),) = {(rank["refused"][0], tuple(rank["refused"][1])) for rank in ranks}
            assert "rank 0 reduces 3 numbers" in said and "rank 1 reduces 7 numbers" in said
            assert kept == (1.0,)
            assert all("contiguous" in rank["foreign"] and "torch.float64" in rank["values"] for rank in ranks)


def dies(group):
    os._exit(0)


def stands_still(group):
    os.kill(os.getpid(), signal.SIGSTOP)


def meets(then):
    """Come for the reduction and give nothing to it."""
    return lambda group: (group.link.sync(call_code(REDUCE_SLOT, 50_000)), then(group))


FATES = {
    "dies": (dies, "PeerDiedError"),
    "dies half-way": (meets(dies), "PeerDiedError"),
    "stands still": (stands_still, "PeerSilentError"),
    "stands still half-way": (meets(stands_still), "PeerSilentError"),
}
HANG_S = 2.0


def losing(fate, lost):
    def job(reduction):
        started_s = time.monotonic()
        try:
            reduction.group.barrier()  # in which one that leaves late may hear of the loss
            reduction.group.link._monitor._hang_s = HANG_S
            if reduction.group.rank == lost:
                fate(reduction.group)
            reduction.reduce(torch.ones(50_000))
        except GmiError as error:
            return type(error).__name__, str(error), time.monotonic() - started_s
        return None

    return job


@pytest.mark.parametrize(("name", "lost"), [("MRR", 0), ("HAR", 0), ("SHARD", 3), ("MRR", 3), ("HAR", 3)])
def test_a_lost_rank_is_named_by_all_whomever_they_wait_for(name, lost):
    """All fates at once, as ranks mostly wait."""
    with ExitStack() as stack:
        runs = [
            stack.enter_context(started([[0, 1], [2, 3]], [name], losing(fate, lost))) for fate, _ in FATES.values()
        ]
        for fate, (answers, processes) in zip(FATES, runs, strict=True):
            said = answers(name, [rank for rank in range(4) if rank != lost])
            for error, message, _ in said:
                assert error == FATES[fate][1], (name, fate, message)
                assert f"rank {lost} (process {processes[lost].pid})" in message, (name, fate, message)
            assert FATES[fate][1] == "PeerDiedError" or max(waited_s for *_, waited_s in said) > HANG_S


def test_ranks_with_other_plans_of_their_group_refuse_each_other():
    """Which would wait for what nobody sends."""
    with (
        closing(RendezvousPoints(HAR, [[0], [1]], 4000)) as points,
        closing(RendezvousPoints(HAR, [[0], [1]], 40_000)) as others,
    ):
        rendezvous = replace(points[1], segment=others[1].segment)

        def live(rank):
            with pytest.raises(UsageError) as caught:
                DeviceAwareGroup(Membership(rank, [[0], [1]]), rendezvous if rank else points[0])
            return str(caught.value)

        with ThreadPoolExecutor(2) as pool:
            (said,) = set(pool.map(live, (0, 1)))
    assert "rank 0 opens the group of plan" in said and "rank 1 opens the group of plan" in said


@pytest.mark.parametrize(("mapping", "reason"), [([[0, 1, 2], [3]], "1 and 3"), ([[0, 1]], "2 on 1")])
def test_rings_are_refused_where_they_cannot_be(mapping, reason):
    class Group:
        pass

    Group.mapping = mapping
    with pytest.raises(UsageError, match=f"a multi-ring reduction needs .*{reason}"):
        MultiRingReduction(Group())


def test_nothing_is_left_open():
    before = len(open_descriptors())
    for name in legal(mapping := [[0], [1]]):
        if name == HOROVOD.name:
            continue  # which knows one rank in a process
        points = RendezvousPoints(METHODS[name], mapping, 4000)

        def live(rank, points=points, name=name):
            reduction = opened(name, rank, mapping, points, 60.0)
            reduction.reduce(vector := reduction.bucket(5).fill_(2.0))
            reduction.group.barrier()
            reduction.group.close()
            return vector.tolist()

        with ThreadPoolExecutor(2) as pool:
            assert [*pool.map(live, (0, 1))] == [[4.0] * 5] * 2
        points.close()
    assert len(open_descriptors()) == before
