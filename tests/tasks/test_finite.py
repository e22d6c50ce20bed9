import pytest
import torch

from gmi_drl.errors import GmiWarning
from gmi_drl.tasks.finite import LARGEST, Notices, finite_weights, weighed_sums

MAX, INF, NAN = torch.finfo(torch.float32).max, float("inf"), float("nan")


def are_finite(rows, reward=None):
    obs = torch.tensor(rows)
    reward = None if reward is None else torch.tensor(reward)
    return weighed_sums(obs, finite_weights(obs.shape[1], obs.device), reward).isfinite().tolist()


def test_a_sum_is_finite_where_all_numbers_are():
    assert are_finite([[MAX] * 300, [-MAX] * 300, [1e-40] * 300]) == [True, True, True]
    for odd in ([INF], [-INF], [NAN], [INF, -INF], [NAN, MAX], [MAX, INF]):
        assert are_finite([odd + [MAX] * 67, [0.0] * (67 + len(odd))]) == [False, True]


def test_nonfinite_reward_marks_environment():
    assert are_finite([[MAX, MAX], [0.0, 0.0], [0.0, 0.0], [MAX, MAX]], [MAX, NAN, -INF, -MAX]) == [
        True,
        False,
        False,
        True,
    ]


def test_the_first_number_of_either_kind_is_warned_of_once():
    notices, reward = Notices("zoo:lion"), torch.zeros(2)
    with pytest.warns(GmiWarning) as told:
        notices.look(0, torch.tensor([[0.0, 1.0], [0.0, -INF]]))
        notices.look(7, torch.tensor([[0.0, 2 * LARGEST], [NAN, 0.0]]), reward)
        notices.look(8, torch.tensor([[NAN, MAX], [NAN, MAX]]), reward)
    words = [str(warning.message) for warning in told]
    assert len(words) == 2 and all("(warned once)" in text for text in words)
    assert words[0].startswith("zoo:lion: environment 1, observation 1: -inf in its first observation is not finite")
    assert words[1].startswith("zoo:lion: environment 0, observation 1: 2e+06 in step 7 was clamped to 1e+06")


def test_a_reward_is_warned_of_too():
    with pytest.warns(GmiWarning, match="^zoo:lion: environment 1, reward: nan in step 3 is not finite"):
        Notices("zoo:lion").look(3, torch.zeros(2, 1), torch.tensor([0.0, NAN]))
