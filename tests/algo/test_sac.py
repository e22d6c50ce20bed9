"""SAC's update against the same by torch.optim and autograd."""

import copy

import pytest
import torch
from algo.batches import batch_of

from gmi_drl.algo.sac import SAC, make_sac_agent
from gmi_drl.config.learners import SACConfig
from gmi_drl.workload import TASK_SPECS

ANT, CPU, N = TASK_SPECS["ant"], torch.device("cpu"), 16


def made(**settings):
    config = SACConfig(hidden=(8, 8), **settings)
    agent = make_sac_agent(ANT, config, CPU, seed=0)
    return agent, SAC(agent, config, batch=N, generator=torch.Generator().manual_seed(5))


def test_updates_are_those_of_the_textbook():
    agent, sac = made(tau=0.1, actor_every=2, learning_rate=0.01, reward_scale=0.5, alpha=0.3)
    policy, draw = copy.deepcopy(agent.policy), torch.Generator().manual_seed(5)
    target = copy.deepcopy(policy.critics)
    of_actor = torch.optim.Adam(policy.actor_parameters(), 0.01)
    of_critics = torch.optim.Adam(policy.critics.parameters(), 0.01)
    for number in range(1, 6):
        batch = batch_of(ANT.observation, ANT.action, N, seed=number)
        at, noise = batch.fields, torch.zeros(2, N, 8).normal_(generator=draw)
        alpha = policy.log_alpha.detach().exp()
        with torch.no_grad():
            action, log_prob = policy.sample(at["next/obs"], noise[0])
            following = target(at["next/obs"], action).min(0).values - alpha * log_prob
            wanted = 0.5 * at["reward"] + at["discount"] * following
        values = policy.critics(at["obs"], at["action"])
        critic_loss = 0.5 * sum((one - wanted).square().mean() for one in values)
        action, log_prob = policy.sample(at["obs"], noise[1])
        actor_loss = (alpha * log_prob - policy.critics(at["obs"], action).min(0).values).mean()
        actor_loss = actor_loss - (policy.log_alpha * (log_prob.detach() - 8).mean()).sum()
        gradients = torch.autograd.grad(actor_loss, policy.actor_parameters())
        of_critics.zero_grad()
        critic_loss.backward()
        of_critics.step()
        if number % 2 == 0:
            for parameter, gradient in zip(policy.actor_parameters(), gradients, strict=True):
                parameter.grad = gradient
            of_actor.step()
        for slow, fast in zip(target.parameters(), policy.critics.parameters(), strict=True):
            slow.data.lerp_(fast.data, 0.1)
        errors = sac.update(batch)
        assert torch.allclose(errors, (values - wanted).abs().mean(0).detach(), atol=1e-4)
    for mine, theirs in zip(agent.policy.parameters(), policy.parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-4)


def test_actions_are_random_until_the_first_update():
    agent, sac = made()
    sac.explore(0)
    assert agent.policy.exploration == 1
    sac.update(batch_of(ANT.observation, ANT.action, N))
    sac.explore(0)
    assert agent.policy.exploration == 0


def test_metrics_of_the_policy_are_means_over_its_own_steps():
    batch = batch_of(ANT.observation, ANT.action, N)
    rows = []
    for every in (1, 2):
        _, sac = made(actor_every=every, learning_rate=1e-9)
        sac.begin()
        for _ in range(4):
            sac.update(batch)
        rows.append(sac.metrics())
    assert rows[0]["entropy"] == pytest.approx(rows[1]["entropy"], rel=0.2)
    assert rows[0]["alpha"] == pytest.approx(1.0) and rows[0]["updates"] == 4


def test_a_learner_goes_on_from_its_state():
    batch = batch_of(ANT.observation, ANT.action, N)
    first, second = made(actor_every=2)[1], made(actor_every=2)[1]
    for _ in range(3):
        first.update(batch)
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    second.generator.set_state(first.generator.get_state())
    second.steps, second.updates = first.counts().tolist()
    first.update(batch)
    second.update(batch)
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name


def test_nothing_moves_in_an_update_that_is_skipped():
    _, sac = made(tau=0.5)
    batch = batch_of(ANT.observation, ANT.action, N)
    sac.update(batch)
    before = {name: tensor.clone() for name, tensor in sac.state_dict().items()}
    batch.fields["reward"][3] = torch.nan
    sac.begin()
    sac.update(batch)
    assert sac.metrics()["skipped_updates"] == 1
    for name, tensor in sac.state_dict().items():
        assert torch.equal(tensor, before[name]), name
