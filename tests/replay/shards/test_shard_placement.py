"""Where trajectories of a data set go."""

import random

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.shards import Weighted
from gmi_drl.replay.shards.placement import ByPriority, Even, Local, expected_local, plan_placement
from tests.replay.shards.shard_ranks import on_ranks, trajectories

DICE = random.Random(1)
PARETO = [DICE.paretovariate(1.2) for _ in range(64)]


def test_even_goes_round():
    assert plan_placement([1.0] * 5, 2, 3, Even()) == [0, 1, 2, 0, 1]


def test_local_stays():
    assert plan_placement([1.0] * 3, 2, 3, Local((2, 0, 2))) == [2, 0, 2]


def test_the_likeliest_lie_on_heads_which_carry_equal_weight():
    owners = plan_placement(PARETO, 16, 4, ByPriority((0, 3)))
    on_heads = sorted((weight for weight, owner in zip(PARETO, owners, strict=True) if owner in (0, 3)), reverse=True)
    assert on_heads == sorted(PARETO, reverse=True)[:32]
    assert [owners.count(rank) for rank in range(4)] == [16] * 4
    small = [1.0] * 20
    owners = plan_placement(small, 10, 3, ByPriority((2, 1)))
    assert [owners.count(rank) for rank in range(3)] == [0, 10, 10]


def test_heads_carry_equal_weight_where_no_single_one_outweighs():
    weights = [1.0 + number % 7 for number in range(40)]
    owners = plan_placement(weights, 40, 4, ByPriority((0, 3)))
    sums = [sum(weight for weight, owner in zip(weights, owners, strict=True) if owner == head) for head in (0, 3)]
    assert abs(sums[0] - sums[1]) <= 1


@pytest.mark.parametrize("how", [Even(), ByPriority((0,))], ids=["even", "by priority"])
def test_what_is_measured_is_what_was_expected(how):
    owners = plan_placement(PARETO, 32, 2, how)

    def job(shards):
        mine = [number for number, owner in enumerate(owners) if owner == shards.rank]
        shards.insert(trajectories(mine), priorities=torch.tensor([PARETO[number] for number in mine]).double())
        drawn = 20_000
        return float((shards.select(drawn, Weighted()) // 32 == 0).sum()) / drawn

    assert on_ranks(2, job, trajectories=32, heads=[0])[0] == pytest.approx(
        expected_local(PARETO, owners, [0]), abs=0.02
    )


def test_by_priority_moves_at_most_half_of_what_even_moves():
    weights = [DICE.paretovariate(1.2) for _ in range(4000)]

    def moved(how):
        return 1 - expected_local(weights, plan_placement(weights, 2000, 2, how), [0])

    assert moved(Even()) > 2 * moved(ByPriority((0,)))


def test_expected_shares():
    assert expected_local([3.0, 1.0], [0, 1], [0]) == 0.75
    assert expected_local([0.0, 0.0], [0, 1], [0]) == 0.5
    assert expected_local([1.0, 1.0], [0, 1], [0, 1]) == 0.5


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: plan_placement([1.0] * 5, 2, 2, Even()), "5 trajectories do not fit into 2 shards of 2"),
        (lambda: plan_placement([-1.0], 2, 2, Even()), "a weight is a number of 0 or more, not -1.0"),
        (lambda: plan_placement([float("nan")], 2, 2, Even()), "not nan"),
        (lambda: plan_placement([1.0], 2, 2, ByPriority((2,))), "rank 2 is no head: there are the ranks 0 to 1"),
        (lambda: ByPriority(()), "heads are ranks, none twice, not []"),
        (lambda: ByPriority((1, 1)), "not [1, 1]"),
        (lambda: plan_placement([1.0], 2, 2, Local((0, 1))), "1 trajectories have as many makers"),
        (lambda: plan_placement([1.0] * 3, 2, 2, Local((0, 0, 0))), "rank 0 has made 3 trajectories, its shard has"),
        (lambda: expected_local([1.0], [], [0]), "one owner for each weight"),
    ],
)
def test_refusals(call, says):
    with pytest.raises(UsageError) as caught:
        call()
    assert says in str(caught.value)
