import pytest
import torch
from rollouts import N, T, make_policy, make_rollout

from gmi_drl.algo.flat_parameters import tensor_digest
from gmi_drl.algo.gradient_squares import GradientSquares
from gmi_drl.algo.ppo import PPO
from gmi_drl.config.learners import PPOConfig

PARTS = 4


def watched(policy):
    return GradientSquares(PPO(policy, PPOConfig()), PARTS)


def statistics_of(rollout):
    return rollout.advantage.mean().item(), rollout.advantage.std().item()


def gradient(policy, rollout, chosen):
    """Of the mean over these transitions of -advantage x log-density, by autograd alone."""
    mean, std = statistics_of(rollout)
    obs, action, advantage = (getattr(rollout, name).flatten(0, 1)[chosen] for name in ("obs", "action", "advantage"))
    density = policy.log_prob(action, policy.actor(obs))
    loss = -((advantage - mean) / (std + 1e-8) * density).mean()
    parameters = [*policy.actor.parameters(), policy.log_std]
    return torch.cat([one.flatten() for one in torch.autograd.grad(loss, parameters)])


def test_squares_are_those_of_the_policys_gradient_over_parts_and_over_all():
    policy = make_policy()
    rollout, order = make_rollout(policy), torch.randperm(T * N)
    squares = watched(policy)
    squares.measure(rollout, order, *statistics_of(rollout))
    ((small, large),) = squares.read()
    parts = [gradient(policy, rollout, chosen) for chosen in order.chunk(PARTS)]
    assert small == pytest.approx(sum(one.square().sum().item() for one in parts) / PARTS, rel=1e-4)
    assert large == pytest.approx(gradient(policy, rollout, order).square().sum().item(), rel=1e-4)


def test_looking_changes_neither_policy_nor_rollout_nor_the_update_that_follows():
    def digest(looks):
        policy = make_policy()
        rollout, order = make_rollout(policy), torch.arange(T * N)
        ppo, before = PPO(policy, PPOConfig()), tensor_digest(rollout.advantage)
        if looks:
            GradientSquares(ppo, PARTS).measure(rollout, order, *statistics_of(rollout))
        assert tensor_digest(rollout.advantage) == before
        rollout.normalise_advantages(*statistics_of(rollout))
        ppo.update(rollout, order)
        return tensor_digest(*ppo.state_dict().values())

    assert digest(looks=True) == digest(looks=False)


def test_each_update_is_read_once():
    policy = make_policy()
    rollout, squares = make_rollout(policy), watched(policy)
    for _ in range(3):
        squares.measure(rollout, torch.randperm(T * N), *statistics_of(rollout))
    assert len(squares.read()) == 3 and squares.read() == []
