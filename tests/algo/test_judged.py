"""Experience of other GMIs, judged by the policy that an update begins with."""

from copy import deepcopy

import pytest
import torch
from experience_made import CPU, N, R, T, make_batch, make_normaliser
from rollouts import SPEC, make_policy

from gmi_drl.algo.agent import Agent
from gmi_drl.algo.judged import fill, judge
from gmi_drl.algo.ppo import PPO
from gmi_drl.algo.rollout import Rollout
from gmi_drl.config.learners import PPOConfig

CONFIG = PPOConfig(horizon=T, entropy_coef=0.0, value_loss_coef=0.0)
OLDER = torch.arange(R * N) >= N
"""An older version acted in the second rollout."""
ALL, NONE = torch.ones(R * N, dtype=torch.bool), torch.zeros(R * N, dtype=torch.bool)


@pytest.fixture(scope="module")
def acted():
    return make_policy()


@pytest.fixture(scope="module")
def agent(acted):
    """A later version than who acted."""
    policy, draw = deepcopy(acted), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for weights in policy.parameters():
            weights.add_(0.03 * torch.randn(weights.shape, generator=draw))
    return Agent(policy, make_normaliser())


def judged(acted, agent, is_older=OLDER):
    """The rollout of a batch, and the densities that came with it `[T, R * N]`."""
    batch = make_batch(acted)
    rollout = Rollout(CONFIG.rollout_form(SPEC, R * N), CPU)
    fill(rollout, batch)
    came = rollout.log_prob.clone()
    judge(rollout, agent, CONFIG, is_older)
    return rollout, came


def test_densities_are_of_the_version_that_the_update_begins_with_where_an_older_one_acted(acted, agent):
    rollout, came = judged(acted, agent)
    own = agent.policy.log_prob(rollout.action, agent.policy.params_and_value(rollout.obs)[0]).detach()
    assert torch.equal(rollout.log_prob[:, :N], came[:, :N]) and (rollout.importance[:, :N] == 1).all()
    torch.testing.assert_close(rollout.log_prob[:, N:], own[:, N:])
    torch.testing.assert_close(rollout.importance[:, N:], (own - came)[:, N:].exp())
    assert (rollout.importance[:, N:] != 1).any()


def test_advantages_are_weighed_after_they_are_normalised(acted, agent):
    rollout, _ = judged(acted, agent)
    expected = rollout.importance * (rollout.advantage - 0.3) / (2 + 1e-8) * rollout.valid
    rollout.normalise_advantages(0.3, 2.0)
    torch.testing.assert_close(rollout.advantage, expected)


def test_without_an_older_version_an_update_is_as_without_importance(acted, agent):
    weighed, came = judged(acted, agent, NONE)
    plain, _ = judged(acted, agent, NONE)
    plain.importance = None
    for rollout in (weighed, plain):
        rollout.normalise_advantages(0.3, 2.0)
    assert torch.equal(weighed.advantage, plain.advantage) and torch.equal(weighed.log_prob, came)


def test_the_first_gradient_is_that_of_ratios_to_who_acted_without_clipping(acted, agent):
    rollout, came = judged(acted, agent, ALL)
    rollout.normalise_advantages(0.3, 2.0)
    weighed, plain = whole(rollout), whole(rollout)
    plain.log_prob.copy_(came.flatten())
    plain.advantage.div_(rollout.importance.flatten())
    unclipped = CONFIG.model_copy(update={"clip": 1e9})
    gradient, expected = (
        PPO(deepcopy(agent.policy), config).policy_gradient(batch).clone()
        for config, batch in ((CONFIG, weighed), (unclipped, plain))
    )
    assert gradient.abs().max() > 0.01
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def whole(rollout):
    """All transitions as one mini-batch."""
    batch = rollout.empty_batch()
    rollout.shuffle(torch.arange(rollout.transitions), batch)
    return batch
