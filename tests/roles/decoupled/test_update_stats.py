"""What trainers exchange of the experience that they have taken."""

import pytest
import torch

from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.algo.normaliser import merge_moments, moments
from gmi_drl.comm.groups.single import SingleRankGroup
from gmi_drl.errors import GmiError
from gmi_drl.layout.experience import FACTS, RolloutForm
from gmi_drl.roles.decoupled.update_stats import UpdateExchange
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.workload.spaces import continuous, vector

FORM = RolloutForm(horizon=3, num_env=2, observation=vector(4), action=continuous(2), num_terms=2)


def batch_of(versions=(5, 3), valid=1.0):
    batch = ExperienceBatch.empty(FORM, len(versions), torch.device("cpu"))
    batch.valid.fill_(valid)
    for rollout, version in enumerate(versions):
        batch.delta[rollout] = moments(torch.randn(6, FORM.observation.size))
        batch.sums[rollout] = torch.arange(7, dtype=torch.float64) + 10 * rollout
        told = {"version": version, "sim_s": 0.5 + rollout, "act_s": 0.25, "wait_s": 1.0, "fetch_s": 0.125}
        batch.facts[rollout] = torch.tensor([float(told.get(name, 0)) for name in FACTS], dtype=torch.float64)
    return batch


def test_sums_add_lags_are_in_versions_and_what_was_seen_is_merged():
    exchange, batch = UpdateExchange(SingleRankGroup(), (0, 2), frames=4), batch_of()
    exchange.note_published(3)
    stats = exchange.exchange(Decision.STOP, batch, 5, dropped={"GMI 2 ended": 3}, waited_s=0.75)
    assert stats.decision is Decision.STOP
    sums = stats.reward_sum, stats.episodes, stats.return_sum, stats.length_sum, stats.bad_environments
    assert sums == (10, 12, 14, 16, 18)
    assert stats.term_sums == (20, 22)
    assert torch.equal(stats.deltas, merge_moments(*batch.delta)[None])
    assert stats.metrics["lag_mean"] == 1 and stats.metrics["lag_max"] == 2
    assert stats.metrics["dropped"] == {"GMI 2 ended": 3}
    told = {name: value for name, value in exchange.agents_s.items() if value}
    assert told == {"sim_s": 1.0, "act_s": 0.25, "wait_s": 1.0, "fetch_s": 0.125}
    assert stats.metrics["training_frames_per_second"] == pytest.approx(
        4 * stats.metrics["training_samples_per_second"]
    )
    assert stats.metrics["rollouts_wait_s"] == 0.75 and stats.metrics["version_age_s"] > 0
    assert not {"rows", "answers_wait_s"} & set(
        stats.metrics
    )  # agents that act for themselves alone tell nothing of answers
    per_second = stats.metrics["predictions_per_second"] / stats.metrics["training_samples_per_second"]
    assert per_second == pytest.approx((2 + 3) / 2)  # three more rollouts were predicted and dropped
    again = exchange.exchange(Decision.GO_ON, batch, 6, dropped={"GMI 2 ended": 4})
    assert again.metrics["dropped"] == {"GMI 2 ended": 1}
    assert exchange.dropped_since({"GMI 2 ended": 4, "experience ended": 9}) == {"experience ended": 9}


class Pair(SingleRankGroup):
    """Two trainers that have taken the same; the second would say stop."""

    def gather(self, values):
        other = values.clone()
        other[0], other[1], other[2] = float(Decision.STOP), 7.0, 0.5
        return torch.stack((values, other))


def test_rank_0s_decision_counts_and_the_largest_lag_of_all():
    stats = UpdateExchange(Pair(), (0, 2)).exchange(
        Decision.GO_ON, batch_of(), 5, dropped={"GMI 0 ended": 1}, publish_s=0.25
    )
    assert stats.metrics["publish_s"] == 0.5  # of the slowest
    assert stats.decision is Decision.GO_ON
    assert stats.metrics["lag_max"] == 7 and stats.metrics["dropped"] == {"GMI 0 ended": 2}
    assert stats.reward_sum == 20 and len(stats.deltas) == 2


def test_a_batch_without_a_valid_transition_is_an_error():
    with pytest.raises(GmiError, match="every environment of every GMI went wrong"):
        UpdateExchange(SingleRankGroup(), (0, 2)).exchange(Decision.GO_ON, batch_of(valid=0.0), 5, dropped={})
