import random

import numpy as np
import pytest
import torch
from conftest import tiny_config

from gmi_drl.comm.groups.single import SingleRankGroup
from gmi_drl.roles.serving.player import Player, new_agent
from gmi_drl.roles.training.evaluation import Evaluation, play_episodes, share_of
from gmi_drl.tasks import make

NUM_ENV = 3


@pytest.fixture
def agent():
    task = make("ball_balance", num_env=1)
    agent, vector = new_agent(task.spec, tiny_config(), torch.device("cpu"))
    vector.add_(0.05)  # else all do the same
    return agent


def played(agent, seed):
    """First episodes of each environment, by the other implementation."""
    task = make("ball_balance", num_env=NUM_ENV, seed=seed)
    task.reset()
    player = Player(task, agent)
    for _ in range(task.spec.episode_steps):
        player.step()
    return [next(one for one in player.finished if one.env == env) for env in range(NUM_ENV)]


def test_each_environment_plays_its_first_episode_alone(agent):
    episodes = played(agent, seed=5)
    sums = play_episodes(
        make("ball_balance", num_env=NUM_ENV, seed=5), lambda task, begins, reward, valid: agent.act(task.obs)
    )
    assert len({one.length for one in episodes}) > 1, "all end together, so the test says little"
    assert sums.tolist() == pytest.approx(
        [NUM_ENV, sum(one.total for one in episodes), sum(one.length for one in episodes)]
    )


def test_means_are_over_all_gmis_and_the_random_numbers_of_the_training_stay(agent):
    class Two(SingleRankGroup):
        def gather(self, values):
            return torch.stack((values, torch.tensor([1.0, 100.0, 7.0], dtype=torch.float64)))

    episodes = played(agent, seed=5)
    evaluation = Evaluation(Two(), make("ball_balance", num_env=NUM_ENV, seed=5), None)
    before, numpys, pythons = torch.get_rng_state(), np.random.get_state(), random.getstate()
    means = evaluation.play(
        lambda task, begins, reward, valid: (
            agent.act(task.obs) + 0 * (torch.randn(1) + np.random.rand() + random.random())
        )
    )
    assert torch.equal(torch.get_rng_state(), before) and random.getstate() == pythons
    assert all(map(np.array_equal, np.random.get_state(), numpys))
    assert means["eval_return_mean"] == pytest.approx((sum(one.total for one in episodes) + 100) / (NUM_ENV + 1))
    assert means["eval_length_mean"] == pytest.approx((sum(one.length for one in episodes) + 7) / (NUM_ENV + 1))


def test_the_best_return_is_better_than_all_before(agent):
    evaluation = Evaluation(SingleRankGroup(), None, best=2.0)
    assert [evaluation.is_best(mean) for mean in (1.0, 3.0, 3.0, 2.5, 4.0)] == [False, True, False, False, True]
    assert evaluation.best == 4.0


@pytest.mark.parametrize(("total", "size", "shares"), [(16, 2, [8, 8]), (5, 3, [2, 2, 1]), (1, 2, [1, 1])])
def test_environments_are_divided_among_the_gmis(total, size, shares):
    assert [share_of(total, rank, size) for rank in range(size)] == shares
