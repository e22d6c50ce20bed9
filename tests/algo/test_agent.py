import pytest
import torch

from gmi_drl.algo.agent import make_agent
from gmi_drl.algo.rollout import Rollout
from gmi_drl.config.learners import PPOConfig
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload import TASK_SPECS

SPEC, CPU, T, N = TASK_SPECS["ant"], torch.device("cpu"), 4, 3


@pytest.fixture
def agent():
    """Has seen observations around 3."""
    agent = make_agent(SPEC, PPOConfig(), CPU, seed=2)
    agent.normaliser.merge(agent.normaliser.delta(torch.randn(99, SPEC.observation.size) + 3)[None])
    return agent


@torch.no_grad()
def sample(agent, obs, noise):
    return agent.policy.act(agent.normaliser(obs), noise)


def test_agents_of_a_seed_begin_alike():
    first, same, other = (make_agent(SPEC, PPOConfig(), CPU, seed=seed) for seed in (1, 1, 2))
    obs = torch.randn(N, SPEC.observation.size)
    assert torch.equal(first.act(obs), same.act(obs)) and not torch.equal(first.act(obs), other.act(obs))


def test_making_an_agent_leaves_torchs_generator_alone():
    """Worlds of some simulators draw from torch's own generator, and those of each GMI shall differ."""
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    make_agent(SPEC, PPOConfig(), CPU, seed=2)
    assert torch.equal(torch.rand(3), expected)


def test_without_noise_it_acts_by_the_mean_of_what_it_samples(agent):
    obs, noise = torch.randn(2, N, SPEC.observation.size), torch.randn(2, N, SPEC.action.size)
    action, mean = sample(agent, obs[0], noise[0])
    assert torch.equal(agent.act(obs[0]), mean) and torch.equal(agent.act(obs[0], noise[0]), action)
    assert not torch.equal(action, mean) and not torch.equal(sample(agent, obs[1], noise[0])[1], mean)
    torch.testing.assert_close(mean, agent.policy.actor((obs[0] - agent.normaliser.mean) * agent.normaliser.scale))


def test_an_evaluated_rollout_is_complete(agent):
    """Whoever learns from it needs neither the policy nor the scaling that acted."""
    generator = torch.Generator().manual_seed(0)
    rollout, obs = (
        Rollout(RolloutForm(T, N, SPEC.observation, SPEC.action), CPU),
        torch.randn(T + 1, N, SPEC.observation.size) + 3,
    )
    rollout.obs.copy_(obs[:T])
    rollout.last_obs.copy_(obs[T])
    noise = torch.randn(rollout.action.shape, generator=generator)
    rollout.action[:], rollout.params[:] = sample(agent, obs[:T], noise)
    rollout.valid.fill_(1)
    agent.policy.log_std.data.fill_(-0.5)
    agent.evaluate(rollout, PPOConfig())
    torch.testing.assert_close(rollout.obs, agent.normaliser(obs[:T]))
    torch.testing.assert_close(rollout.value, agent.value(obs[:T]))
    normal = torch.distributions.Normal(rollout.params, torch.tensor(-0.5).exp())
    torch.testing.assert_close(rollout.log_prob, normal.log_prob(rollout.action).sum(-1))
    assert rollout.log_std.tolist() == [-0.5] * SPEC.action.size
    last_step = 0.99 * agent.value(obs[T]) - rollout.value[-1]  # no reward: what follows less what was expected
    torch.testing.assert_close(rollout.advantage[-1], last_step)
