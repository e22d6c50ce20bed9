import pytest
import torch

from gmi_drl.algo.networks import ActorCritic, gaussian_kl
from gmi_drl.workload import TASK_SPECS, TaskSpec

TABLE_6 = [  # paper Table 6 (sizes) and Table 7 (weights): 1.1e5, 2.9e5, 1.5e6
    ("AT", 60, (256, 128, 64), 8, 114_121),
    ("HM", 108, (200, 400, 100), 21, 286_822),
    ("SH", 211, (512, 512, 512, 256), 20, 1_535_765),
]


@pytest.mark.parametrize(("alias", "num_obs", "hidden", "num_actions", "weights"), TABLE_6)
def test_the_networks_have_the_papers_weights(alias, num_obs, hidden, num_actions, weights):
    spec = TaskSpec(alias, alias, num_obs, num_actions, hidden, episode_steps=1, step_s=1)
    policy = ActorCritic(spec)
    made = sum(p.numel() for net in (policy.actor, policy.critic) for p in net.parameters())
    assert made == weights == spec.num_weights()


def test_sampling_and_log_prob_agree_with_torch_distributions():
    policy = ActorCritic(TASK_SPECS["ant"], init_std=0.7)
    obs = torch.randn(5, 60)
    noise = torch.randn(5, 8)
    action, mean = policy.act(obs, noise)
    reference = torch.distributions.Normal(mean, policy.log_std.exp())
    torch.testing.assert_close(action, mean + 0.7 * noise)
    torch.testing.assert_close(policy.log_prob(action, mean), reference.log_prob(action).sum(-1))
    torch.testing.assert_close(policy.entropy(), reference.entropy().sum(-1)[0])


def test_kl_agrees_with_torch_distributions():
    old_mean, mean, old_log_std, log_std = torch.randn(4, 3), torch.randn(4, 3), torch.randn(3), torch.randn(3)
    old, new = torch.distributions.Normal(old_mean, old_log_std.exp()), torch.distributions.Normal(mean, log_std.exp())
    expected = torch.distributions.kl_divergence(old, new).sum(-1)
    torch.testing.assert_close(gaussian_kl(old_mean, old_log_std, mean, log_std), expected)
