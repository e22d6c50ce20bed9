"""Draws have the shares that weights, steps and distinctness give them."""

import pytest
import torch

from gmi_drl.replay.shards import Weighted
from gmi_drl.replay.shards.chances import MOST_TREES
from tests.replay.shards.shard_ranks import on_ranks, trajectories


def test_exponents_that_change_with_every_selection_leave_nothing():
    def job(shards):
        shards.insert(trajectories([0, 1]), priorities=torch.tensor([1.0, 3.0]))
        first, steady, counts = shards.select(5, Weighted(0.5)).tolist(), set(), []
        for step in range(20):
            shards.select(5, Weighted(1.0 + step / 20))
            counts.append(shards.select(4000, Weighted()).unique(return_counts=True)[1])
            steady.add(shards.shard.chances._trees[1.0, False])
        trees, told = len(shards.shard.chances._trees), len(shards._selection._told)
        return len(first), len(steady), trees, told, float(counts[-1][1] / 4000)

    ((*sizes, share),) = on_ranks(1, job, trajectories=2)
    assert sizes == [5, 1, MOST_TREES, 1]
    assert share == pytest.approx(0.75, abs=0.04)


@pytest.mark.parametrize("scale", [1e-50, 1e140])
def test_priorities_that_are_no_tensor_are_not_rounded(scale):
    def job(shards):
        shards.insert(trajectories([0, 1]), priorities=[scale, 3 * scale])
        shares = [shards.select(4000, Weighted(2.0)).unique(return_counts=True)[1].tolist()]
        for index, priority in enumerate((3 * scale, scale)):
            shards.update([index], priority)
        return [*shares, shards.select(4000, Weighted(2.0)).unique(return_counts=True)[1].tolist()]

    ((first, second),) = on_ranks(1, job, trajectories=2)
    assert first == pytest.approx([400, 3600], abs=100) and second == pytest.approx([3600, 400], abs=100)


def test_by_steps_every_step_is_as_likely():
    def job(shards):
        shards.insert(trajectories([1, 2], steps=4), lengths=torch.tensor([1, 4] if shards.rank else [4, 1]))
        return torch.bincount(shards.select(20_000, by_steps=True), minlength=16).tolist()

    for counts in on_ranks(2, job):
        assert [round(counts[index] / 2000, 1) for index in (0, 1, 8, 9)] == pytest.approx([4, 1, 1, 4], abs=0.2)


def test_distinct_draws_have_the_shares_of_draws_without_replacement():
    def job(shards):
        shards.insert(trajectories([0, 1, 2]), priorities=torch.tensor([1.0, 2.0, 3.0]))
        return torch.stack([shards.select(2, Weighted(), distinct=True) for _ in range(1000)])

    drawn = on_ranks(1, job, trajectories=3)[0]
    assert bool((drawn[:, 0] != drawn[:, 1]).all())
    firsts = torch.bincount(drawn[:, 0], minlength=3) / 1000
    assert firsts.tolist() == pytest.approx([1 / 6, 2 / 6, 3 / 6], abs=0.06)
    seconds = torch.bincount(drawn[drawn[:, 0] == 2, 1], minlength=3)
    assert float(seconds[1] / seconds.sum()) == pytest.approx(2 / 3, abs=0.08)


def test_distinct_draws_are_others_each_time_whatever_was_told():
    def job(shards):
        shards.insert(trajectories(range(8)))
        return {tuple(shards.select(4, distinct=True).tolist()) for _ in range(4)}

    first, second = on_ranks(2, job, sync_every=100)
    assert first == second
    assert len(first) == 4


@pytest.mark.parametrize("central", [False, True])
def test_shares_are_right_by_chi_squared(central):
    draws = 100_000 if central else 1_000_000

    def job(shards):
        if shards.rank < 2:
            weights = torch.arange(1.0, 9.0) if shards.rank else torch.linspace(0, 100, 8)
            shards.insert(trajectories(range(8)), priorities=weights)
        return shards.select(draws, Weighted(), central=central)

    drawn = on_ranks(3, job)[0]
    weights = torch.cat((torch.linspace(0, 100, 8), torch.arange(1.0, 9.0)))
    expected = draws * weights / weights.sum()
    counts = torch.bincount(drawn, minlength=16).float()
    assert counts[0] == 0
    assert float(((counts - expected)[1:] ** 2 / expected[1:]).sum()) < 45  # 14 degrees of freedom, p = 0.00004
