"""Batches made ahead are those that would be made without it."""

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.shards import Weighted
from tests.replay.shards.shard_ranks import on_ranks, trajectories


def fill(shards):
    shards.insert(trajectories(range(shards.rank * 8, shards.rank * 8 + 8)), priorities=torch.arange(8.0))


def test_the_same_batches_in_order_and_after_it():
    def job(shards):
        fill(shards)
        alone = [shards.select(3, Weighted()).tolist() for _ in range(6)]
        return alone, shards.epoch()

    def ahead(shards):
        fill(shards)
        batches = shards.prefetch(2, 3, Weighted())
        got = []
        for _ in range(4):
            indices, fields, lengths = next(batches)
            assert (fields["tag"][:, 0] // 100).tolist() == indices.tolist()
            assert lengths.tolist() == [4, 4, 4]
            got.append(indices.tolist())
        shards.end_prefetch()
        with pytest.raises(StopIteration):
            next(batches)
        got += [shards.select(3, Weighted()).tolist() for _ in range(2)]
        return got, shards.epoch()

    alone = on_ranks(2, job)
    assert on_ranks(2, ahead) == alone
    assert alone[0] == alone[1]


def test_other_calls_may_be_made_between_batches():
    def job(shards):
        fill(shards)
        batches = shards.prefetch(3, 2)
        first = next(batches).indices
        shards.update(first, 1.0)
        shards.sync()
        shards.agree("between batches")
        collected = shards.collect(shards.select(1))[1].tolist()
        with pytest.raises(UsageError, match="prefetched already"):
            shards.prefetch(1, 1)
        next(batches)
        shards.end_prefetch()
        shards.end_prefetch()
        return collected

    assert on_ranks(2, job) == [[4], [4]]


def test_a_failure_comes_out_where_the_batch_is_wanted():
    def job(shards):
        batches = shards.prefetch(1, 2, timeout_s=0.05)
        with pytest.raises(ReplayTimeoutError, match="no shard has a trajectory"):
            next(batches)
        shards.end_prefetch()
        fill(shards)
        return len(shards.select(2))

    assert on_ranks(2, job) == [2, 2]


def test_shards_that_close_end_the_thread():
    def job(shards):
        fill(shards)
        batches = shards.prefetch(3, 2)
        next(batches)
        shards.close()
        with pytest.raises(StopIteration):
            next(batches)

    on_ranks(2, job)


def test_heads_share_what_is_prefetched():
    def job(shards):
        fill(shards)
        indices, fields, _ = next(shards.prefetch(1, 4, split=True, columns=["b"]))
        shards.end_prefetch()
        return (fields["tag"][:, 0] // 100).tolist(), indices.tolist()

    (first, indices), (second, _) = on_ranks(2, job)
    assert first + second == indices
