"""Experience of Ant's sizes that is made up, and who learns from it, for tests of A3C."""

from copy import deepcopy

import torch
from rollouts import SPEC, make_policy

from gmi_drl.algo.a3c import A3C
from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.config.learners import A3CConfig
from gmi_drl.layout.experience import RolloutForm

R, T, N = 2, 6, 8
CPU = torch.device("cpu")
CONFIG = A3CConfig(
    minibatches=1,
    schedule="fixed",
    learning_rate=1e-4,
    clip=0.2,
    entropy_coef=0.01,
    reward_scale=0.5,
    init_std=1.0,
)


SEEN = torch.randn(100, SPEC.observation.size, generator=torch.Generator().manual_seed(4)) * 2 + 1
"""Observations, before the first update."""


def make_normaliser():
    """One that has seen them."""
    normaliser = Normaliser(SPEC.observation, CPU)
    normaliser.merge(normaliser.delta(SEEN)[None])
    return normaliser


def make_batch(policy, *, seed=1, rollouts=R, num_env=N, ends=0.15, wrong=0.1):
    """Made-up experience of a policy: every kind that is learnt from, with ends, time-outs and worlds gone wrong."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape):
        return torch.randn(rollouts, *shape, generator=generator)

    def happens(part):
        return (torch.rand(rollouts, T, num_env, generator=generator) < part).float()

    batch = ExperienceBatch.empty(RolloutForm(T, num_env, SPEC.observation, SPEC.action), rollouts, CPU)
    batch.obs.copy_(drawn(T, num_env, SPEC.observation.size) * 2 + 1)
    batch.last_obs.copy_(drawn(num_env, SPEC.observation.size) * 2 + 1)
    with torch.no_grad():
        action, mean = policy.act(make_normaliser()(batch.obs), drawn(T, num_env, SPEC.action.size))
        batch.log_prob.copy_(policy.log_prob(action, mean))
    batch.action.copy_(action)
    batch.reward.copy_(drawn(T, num_env))
    batch.done.copy_(happens(ends))
    batch.bootstrap.copy_(batch.done * happens(0.4) * drawn(T, num_env))
    batch.valid.copy_(1 - happens(wrong))
    return batch


def make_behaviour(learns=None):
    """A policy that has acted, near the one that learns but not the same."""
    policy = deepcopy(learns) if learns else make_policy()
    with torch.no_grad():
        policy.actor[-1].bias.add_(0.2)
        policy.log_std.add_(0.1)
    return policy


def make_a3c(config=CONFIG, **more):
    return A3C(make_policy(), make_normaliser(), config, **more)


def flat(policy):
    """All parameters, as plain rows."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in policy.parameters_in_order()])
