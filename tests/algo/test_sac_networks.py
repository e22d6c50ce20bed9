"""The networks of SAC against networks made apart."""

import pytest
import torch
from torch import nn
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from gmi_drl.algo.sac_networks import SoftActorCritic, TwinCritics
from gmi_drl.config.learners import SACConfig
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]


@pytest.mark.parametrize("layer_norm", [False, True])
def test_two_critics_at_once_are_two_critics(layer_norm):
    config = SACConfig(hidden=(16, 8), layer_norm=layer_norm)
    critics = TwinCritics(10, config)
    obs, action = torch.randn(5, 7), torch.randn(5, 3)
    for number, values in enumerate(critics(obs, action)):
        layers = []
        for depth, (weight, bias) in enumerate(zip(critics.weights, critics.biases, strict=True)):
            linear = nn.Linear(*weight.shape[1:])
            linear.weight.data, linear.bias.data = weight[number].T, bias[number, 0]
            is_last = depth == len(critics.weights) - 1
            norm = [nn.LayerNorm(weight.shape[2])] if layer_norm and not is_last else []
            layers += [linear, *norm, *([] if is_last else [nn.ReLU()])]
        expected = nn.Sequential(*layers)(torch.cat((obs, action), -1)).squeeze(-1)
        assert torch.allclose(values, expected, atol=1e-5)


def test_densities_of_actions_are_those_of_a_gaussian_through_tanh():
    policy = SoftActorCritic(ANT, SACConfig(hidden=(8,)))
    obs, noise = torch.randn(6, 60), torch.randn(6, 8)
    action, log_prob = policy.sample(obs, noise)
    mean, log_std = policy.actor(obs).chunk(2, -1)
    made = TransformedDistribution(Normal(mean, log_std.exp()), TanhTransform(cache_size=0))
    assert torch.allclose(log_prob, made.log_prob(action).sum(-1), atol=1e-2)
    assert torch.allclose(policy.act(obs, noise)[0], action)
    assert torch.allclose(policy.mode(obs), mean.tanh()) and torch.allclose(policy.act(obs, 0 * noise)[0], mean.tanh())


def test_random_actions_are_uniform():
    policy = SoftActorCritic(ANT, SACConfig(hidden=(8,)))
    policy.exploration.fill_(1.0)
    action, _ = policy.act(torch.randn(5000, 60), torch.randn(5000, 8))
    counts = torch.histc(action, 10, -1, 1) / action.numel()
    assert ((counts - 0.1).abs() < 0.01).all()
