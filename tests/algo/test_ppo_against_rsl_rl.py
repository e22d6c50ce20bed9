"""One PPO update from the same rollout, weights and permutation agrees with rsl-rl-lib's."""

import pytest
import torch

from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.ppo import PPO
from gmi_drl.algo.rollout import Rollout
from gmi_drl.config import PPOConfig
from gmi_drl.workload import TASK_SPECS

rsl_rl = pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
from rsl_rl.algorithms import PPO as ReferencePPO  # noqa: E402, N811
from rsl_rl.models import MLPModel  # noqa: E402
from rsl_rl.storage import RolloutStorage  # noqa: E402
from tensordict import TensorDict  # noqa: E402

T, N = 8, 32
SPEC = TASK_SPECS["ant"]


def make_reference(config, policy):
    obs = TensorDict({"policy": torch.zeros(N, SPEC.num_obs)}, batch_size=[N])
    groups = {"actor": ["policy"], "critic": ["policy"]}
    gaussian = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "log"}
    actor = MLPModel(obs, groups, "actor", SPEC.num_actions, SPEC.hidden, distribution_cfg=gaussian)
    critic = MLPModel(obs, groups, "critic", 1, SPEC.hidden)
    for ours, theirs in ((policy.actor, actor.mlp), (policy.critic, critic.mlp)):
        for source, target in zip(ours.parameters(), theirs.parameters(), strict=True):
            target.data.copy_(source.data)
    storage = RolloutStorage("rl", N, T, obs, [SPEC.num_actions])
    return ReferencePPO(
        actor,
        critic,
        storage,
        num_learning_epochs=config.epochs,
        num_mini_batches=config.minibatches,
        clip_param=config.clip,
        gamma=config.gamma,
        lam=config.lam,
        value_loss_coef=config.value_loss_coef,
        entropy_coef=config.entropy_coef,
        learning_rate=config.learning_rate,
        max_grad_norm=config.max_grad_norm,
        schedule=config.schedule,
        desired_kl=config.desired_kl,
    )


def collect(reference, policy):
    """Let the reference act in a made-up world and record the same experience in our rollout."""
    torch.manual_seed(5)
    rollout = Rollout(T, N, SPEC.num_obs, SPEC.num_actions, torch.device("cpu"))
    rollout.valid.fill_(1)
    with torch.no_grad():
        for t in range(T):
            obs = torch.randn(N, SPEC.num_obs)
            action = reference.act(TensorDict({"policy": obs}, batch_size=[N]))
            reward, time_outs = torch.randn(N), (torch.rand(N) < 0.1)
            dones = time_outs | (torch.rand(N) < 0.1)
            rollout.obs[t], rollout.action[t] = obs, action
            rollout.mean[t] = policy.actor(obs)
            rollout.log_prob[t] = policy.log_prob(action, rollout.mean[t])
            rollout.value[t] = policy.value(obs)
            rollout.reward[t], rollout.done[t] = reward, dones.float()
            rollout.bootstrap[t] = rollout.value[t] * time_outs  # rsl_rl's way: `bootstrap: last_value`
            reference.process_env_step(TensorDict({}, batch_size=[N]), reward, dones, {"time_outs": time_outs.float()})
        last_obs = torch.randn(N, SPEC.num_obs)
        reference.compute_returns(TensorDict({"policy": last_obs}, batch_size=[N]))
        last_value = policy.value(last_obs)
    return rollout, last_value


@pytest.mark.parametrize("schedule", ["adaptive", "fixed"])
def test_one_update_agrees_with_rsl_rl(schedule, monkeypatch):
    config = PPOConfig(schedule=schedule, entropy_coef=0.01, epochs=5)
    torch.manual_seed(0)
    policy = ActorCritic(SPEC)
    reference = make_reference(config, policy)
    rollout, last_value = collect(reference, policy)
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
    expected = torch.cat([parameter.detach().reshape(-1) for parameter in theirs])
    torch.testing.assert_close(ours.flat.vector.data, expected, atol=1e-5, rtol=0)
    assert (expected - before).abs().max() > 1e-3, "nothing was learnt, so agreement says nothing"
    assert ours.learning_rate.item() == pytest.approx(reference.learning_rate, rel=1e-5)
    assert schedule == "fixed" or reference.learning_rate != config.learning_rate
