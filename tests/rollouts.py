"""Rollouts of Ant's sizes that are made up, for tests of what learns from them."""

from dataclasses import replace

import torch

from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.rollout import Rollout
from gmi_drl.config.learners import PPOConfig
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload import TASK_SPECS

T, N = 8, 32
SPEC = TASK_SPECS["ant"]


def make_policy(seed=0, hidden=SPEC.hidden):
    torch.manual_seed(seed)
    policy = ActorCritic(replace(SPEC, hidden=hidden))
    with torch.no_grad():  # a policy that has something to lose: means of order one
        policy.actor[-1].weight.mul_(30)
    return policy


def make_rollout(policy, seed=1, num_env=N):
    generator = torch.Generator().manual_seed(seed)
    rollout = Rollout(RolloutForm(T, num_env, SPEC.observation, SPEC.action), torch.device("cpu"))
    rollout.obs.copy_(torch.randn(T, num_env, SPEC.observation.size, generator=generator))
    rollout.valid.fill_(1)
    with torch.no_grad():
        noise = torch.randn(rollout.action.shape, generator=generator)
        rollout.action[:], rollout.params[:] = policy.act(rollout.obs, noise)
        rollout.log_prob.copy_(policy.log_prob(rollout.action, rollout.params))
        rollout.value.copy_(policy.value(rollout.obs))
        rollout.log_std.copy_(policy.log_std)
    rollout.reward.copy_(torch.randn(T, num_env, generator=generator))
    rollout.done.copy_((torch.rand(T, num_env, generator=generator) < 0.1).float())
    rollout.advantages(torch.randn(num_env, generator=generator), PPOConfig())
    return rollout


def normalise(rollout):
    rollout.normalise_advantages(rollout.advantage.mean().item(), rollout.advantage.std().item())
