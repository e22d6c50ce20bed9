import pytest
import torch

from gmi_drl.algo.normaliser import moments
from gmi_drl.comm.groups.single import SingleRankGroup
from gmi_drl.errors import GmiError
from gmi_drl.roles.training.iteration_stats import Decision, exchange_stats


class Table(SingleRankGroup):
    """A group whose other rank sends what it is told."""

    def __init__(self, other):
        super().__init__()
        self.other = other

    def gather(self, values):
        return torch.stack((values, self.other))


def message(word, sums, advantages, delta):
    return torch.cat((torch.tensor([float(word)], dtype=torch.float64), sums, advantages, delta))


def test_the_decision_is_rank_0s_sums_add_and_advantages_pool():
    advantages = torch.randn(20, dtype=torch.float64)
    parts = [moments(advantages[:5, None]), moments(advantages[5:, None])]
    sums = torch.arange(5, dtype=torch.float64)
    delta = torch.ones(7, dtype=torch.float64)
    stats = exchange_stats(
        Table(message(Decision.GO_ON, sums, parts[1], delta * 2)), Decision.STOP, sums, parts[0], delta
    )
    assert stats.decision is Decision.STOP
    assert (stats.reward_sum, stats.episodes, stats.return_sum, stats.length_sum, stats.bad_environments) == (
        0,
        2,
        4,
        6,
        8,
    )
    assert stats.advantage_mean == pytest.approx(advantages.mean().item())
    assert stats.advantage_std == pytest.approx(advantages.std().item())
    assert torch.equal(stats.deltas, torch.stack((delta, delta * 2)))


def test_an_iteration_without_one_valid_transition_is_an_error():
    nothing = torch.zeros(3, dtype=torch.float64)
    with pytest.raises(GmiError, match="every environment of every GMI went wrong"):
        exchange_stats(
            SingleRankGroup(),
            Decision.GO_ON,
            torch.zeros(5, dtype=torch.float64),
            nothing,
            torch.zeros(7, dtype=torch.float64),
        )


def test_terms_of_rewards_add_up_over_the_group():
    sums, advantages = torch.arange(7, dtype=torch.float64), moments(torch.randn(9, 1, dtype=torch.float64))
    delta = torch.ones(7, dtype=torch.float64)
    stats = exchange_stats(
        Table(message(Decision.GO_ON, 10 * sums, advantages, 2 * delta)), Decision.GO_ON, sums, advantages, delta
    )
    assert (stats.bad_environments, stats.term_sums) == (44.0, (55.0, 66.0))
    assert torch.equal(stats.deltas, torch.stack((delta, 2 * delta)))
    assert exchange_stats(SingleRankGroup(), Decision.GO_ON, sums[:5], advantages, delta).term_sums == ()
