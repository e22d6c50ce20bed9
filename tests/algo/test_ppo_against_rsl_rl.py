"""One PPO update from the same rollout, weights and permutation agrees with rsl-rl-lib's."""

import pytest
import torch

from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.ppo import PPO
from gmi_drl.bench.cases.ppo_update import reference_ppo, same_experience
from gmi_drl.config import PPOConfig
from gmi_drl.workload import TASK_SPECS

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

T, N = 8, 32
SPEC = TASK_SPECS["ant"]


@pytest.mark.parametrize("schedule", ["adaptive", "fixed"])
def test_one_update_agrees_with_rsl_rl(schedule, monkeypatch):
    config = PPOConfig(schedule=schedule, entropy_coef=0.01, epochs=5)
    torch.manual_seed(0)
    policy = ActorCritic(SPEC)
    reference = reference_ppo(config, policy, T, N)
    torch.manual_seed(5)
    rollout, last_value = same_experience(reference, policy, T, N)
    ours = PPO(policy, config)
    before = ours.flat.vector.data.clone()

    rollout.advantages(last_value, config)
    rollout.normalise_advantages(rollout.advantage.mean().item(), rollout.advantage.std().item())
    permutation = torch.randperm(T * N)
    monkeypatch.setattr(torch, "randperm", lambda *args, **kwargs: permutation)
    reference.update()
    ours.update(rollout, permutation)

    theirs = [*reference.actor.mlp.parameters(), *reference.actor.distribution.parameters()]
    theirs += reference.critic.mlp.parameters()
    expected = torch.cat([parameter.detach().t().reshape(-1) for parameter in theirs])  # weights as [in, out]
    torch.testing.assert_close(ours.flat.vector.data, expected, atol=1e-5, rtol=0)
    assert (expected - before).abs().max() > 1e-3, "nothing was learnt, so agreement says nothing"
    assert ours.learning_rate.item() == pytest.approx(reference.learning_rate, rel=1e-5)
    assert schedule == "fixed" or reference.learning_rate != config.learning_rate
