from dataclasses import replace

import pytest
import torch
from algo.batches import batch_of
from algo.test_kinds_of_gradients import KINDS, learner_and_batch, made_up
from rollouts import N, T, make_policy, make_rollout, normalise

from gmi_drl.algo.dqn import DQN, make_dqn_agent
from gmi_drl.algo.ppo import PPO
from gmi_drl.algo.rollout import BATCH, MiniBatch
from gmi_drl.algo.sac import SAC, make_sac_agent
from gmi_drl.config.learners import DQNConfig, PPOConfig, SACConfig
from gmi_drl.cuda_graph import WARM_UP_CALLS, Captured
from gmi_drl.replay.ring import RingBatch
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.spaces import categorical

pytestmark = pytest.mark.gpu

CHOOSING = replace(TASK_SPECS["ant"], action=categorical(3))


@pytest.mark.parametrize("is_on", [True, False])
def test_a_replay_does_what_a_call_does(is_on):
    device = torch.device("cuda")
    total, step, calls = torch.zeros((), device=device), torch.ones((), device=device), []

    def run():
        calls.append(None)
        total.add_(step)

    add = Captured(run, device, is_on=is_on)
    for _ in range(WARM_UP_CALLS + 3):
        add()
    step.fill_(10)  # a replay reads what its tensors hold now
    add()
    assert total.item() == WARM_UP_CALLS + 3 + 10
    assert len(calls) == (WARM_UP_CALLS + 1 if is_on else WARM_UP_CALLS + 4)


def test_an_update_by_graphs_is_the_update_without():
    device, results = torch.device("cuda"), []
    for capture in (True, False):
        policy = make_policy().to(device)
        ppo, rollout = PPO(policy, PPOConfig(), cuda_graphs=capture), make_rollout(make_policy())
        for name, tensor in vars(rollout).items():
            if isinstance(tensor, torch.Tensor):
                setattr(rollout, name, tensor.to(device))
        normalise(rollout)
        for seed in range(4):
            ppo.update(rollout, torch.randperm(T * N, generator=torch.Generator().manual_seed(seed)).to(device))
        results.append(ppo.flat.vector.clone())
    torch.testing.assert_close(*results, atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_ppos_gradient_is_that_of_the_cores(kind):
    buckets = []
    for device in ("cpu", "cuda"):
        policy, n = made_up(kind)
        ppo = PPO(policy.to(device), PPOConfig(entropy_coef=0.02))
        ppo.old_log_std.fill_(0.1)
        batch = {name: n[name].to(device) if name in n else None for name in (*BATCH, "done", "state")}
        ppo._compute_gradient(MiniBatch(**batch))
        buckets.append(ppo.flat.bucket.cpu())
    torch.testing.assert_close(*buckets, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_ppos_gradient_in_bfloat16_is_near_that_of_the_cores(kind, monkeypatch):
    observation, action, settings = KINDS[kind]
    monkeypatch.setitem(KINDS, kind, (observation, action, replace(settings, hidden=(32, 16), bf16=True)))
    buckets = []
    for device in ("cpu", "cuda"):
        policy, n = made_up(kind)
        learner, batch = learner_and_batch("ppo", policy.to(device), n, entropy_coef=0.02)
        moved = {name: value.to(device) for name, value in vars(batch).items() if isinstance(value, torch.Tensor)}
        learner._compute_gradient(replace(batch, **moved))
        buckets.append(learner.flat.bucket.cpu())
    assert policy.is_plain and (buckets[0] - buckets[1]).norm() < 2e-2 * buckets[0].norm()


def learner_of(kind, device, *, graphs):
    """DQN or SAC with the same weights in each call."""
    device = torch.device(device)
    if kind == "dqn":
        config = DQNConfig(hidden=(32,), target_every=2)
        return DQN(make_dqn_agent(CHOOSING, config, device, seed=0), config, batch=64, cuda_graphs=graphs)
    config, noise = SACConfig(hidden=(32, 32), actor_every=2), torch.Generator(device).manual_seed(5)
    agent = make_sac_agent(TASK_SPECS["ant"], config, device, seed=0)
    return SAC(agent, config, batch=64, generator=noise, cuda_graphs=graphs)


def updated(kind, device, *, graphs):
    """The parameters and the last errors after ten updates from the same memory."""
    learner, spec = learner_of(kind, device, graphs=graphs), CHOOSING if kind == "dqn" else TASK_SPECS["ant"]
    memory = None
    for number in range(10):
        batch = batch_of(spec.observation, spec.action, 64, seed=number)
        if memory is None:
            fields = {name: value.to(device) for name, value in batch.fields.items()}
            memory = RingBatch(fields, batch.keys, batch.probabilities, batch.size, (object(), None))
        for name, value in batch.fields.items():
            memory.fields[name].copy_(value)
        learner.update(memory)
    return learner.flat.vector.cpu(), learner.errors.cpu()


@pytest.mark.parametrize("kind", ["dqn", "sac"])
def test_updates_from_replay_by_graphs_are_the_updates_without(kind):
    by_graphs, without = (updated(kind, "cuda", graphs=graphs) for graphs in (True, False))
    torch.testing.assert_close(by_graphs, without, atol=1e-6, rtol=1e-5)


def test_updates_of_dqn_are_those_of_the_cores():
    """SAC draws its noise on the device, so its numbers are others there."""
    torch.testing.assert_close(
        updated("dqn", "cuda", graphs=True), updated("dqn", "cpu", graphs=False), atol=1e-4, rtol=1e-3
    )
