"""PPO updates from the same rollouts, weights and permutation agree with rsl-rl-lib's."""

import pytest
import torch

from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.ppo import PPO
from gmi_drl.benchmarks.cases.components.ppo_update import reference_ppo, same_experience
from gmi_drl.config.learners import PPOConfig
from gmi_drl.workload import TASK_SPECS

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

T, N = 8, 32
SPEC = TASK_SPECS["ant"]


@pytest.mark.parametrize("schedule", ["adaptive", "fixed"])
def test_updates_agree_with_rsl_rl(schedule, monkeypatch):
    """The second one starts from standard deviations that the first has changed."""
    config = PPOConfig(schedule=schedule, entropy_coef=0.01, epochs=5)
    torch.manual_seed(0)
    policy = ActorCritic(SPEC)
    reference = reference_ppo(config, policy, T, N)
    torch.manual_seed(5)
    ours = PPO(policy, config)
    permutation = torch.randperm(T * N)
    for _ in range(2):
        before, rate = ours.flat.vector.clone(), ours.learning_rate.item()
        rollout, last_value = same_experience(reference, policy, T, N)
        rollout.advantages(last_value, config)
        rollout.normalise_advantages(rollout.advantage.mean().item(), rollout.advantage.std().item())
        with monkeypatch.context() as patch:
            patch.setattr(torch, "randperm", lambda *args, **kwargs: permutation)
            reference.update()
        ours.update(rollout, permutation)

        expected = parameters_of(reference)
        torch.testing.assert_close(ours.flat.vector, expected, atol=1e-5, rtol=0)
        assert (expected - before).abs().max() > 1e-3, "nothing was learnt, so agreement says nothing"
        assert ours.learning_rate.item() == pytest.approx(reference.learning_rate, rel=1e-5)
        assert schedule == "fixed" or reference.learning_rate != rate


def parameters_of(reference):
    """All weights of rsl_rl's PPO in the order of our vector."""
    theirs = [*reference.actor.mlp.parameters(), *reference.actor.distribution.parameters()]
    theirs += reference.critic.mlp.parameters()
    return torch.cat([parameter.detach().t().reshape(-1) for parameter in theirs])  # weights as [in, out]
