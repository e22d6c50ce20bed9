"""The sequence policy: what it reads, how its agent keeps contexts, and updates that are not finite."""

import math
from dataclasses import replace

import pytest
import torch

from gmi_drl.algo.sequence import Contexts, Sequence, action_losses
from gmi_drl.algo.sequence_agent import make_sequence_agent
from gmi_drl.algo.sequence_policy import SequencePolicy, read_as
from gmi_drl.config.learners import SequenceConfig
from gmi_drl.errors import UsageError
from gmi_drl.results.policy_module import PolicyModule
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.spaces import Action, vector

CPU, K = torch.device("cpu"), 3
CONFIG = SequenceConfig(width=8, heads=2, layers=2, context=K)
ACTIONS = {"numbers": Action(2), "choices": Action(0, (3, 2)), "both": Action(1, (3,))}


def spec_with(action):
    return replace(TASK_SPECS["ant"], name="small", observation=vector(4), action=action)


def agent_of(action):
    agent = make_sequence_agent(spec_with(action), CONFIG, CPU, seed=1)
    agent.normaliser.load(torch.tensor([10.0, *[0.5] * 4, *[20.0] * 4, 7.0, 2.0], dtype=torch.float64))
    return agent


def contexts(action, batch=5):
    draw = torch.Generator().manual_seed(0)
    choices = [torch.randint(0, size, (batch, K, 1), generator=draw) for size in action.categories]
    numbers = torch.randn(batch, K, action.numbers, generator=draw)
    return Contexts(
        torch.randn(batch, K, generator=draw),
        torch.randn(batch, K, 4, generator=draw),
        torch.cat([numbers, *choices], -1),
        torch.ones(batch, K, dtype=torch.bool),
    )


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_a_step_depends_on_what_came_before_its_action_alone(action):
    policy, batch = SequencePolicy(spec_with(action), CONFIG), contexts(action)
    params = policy(batch.to_go, batch.obs, batch.action)
    assert params.shape == (5, K, action.params)
    for change, first in (("to_go", 1), ("obs", 1), ("action", 2)):
        other = {name: getattr(batch, name).clone() for name in ("to_go", "obs", "action")}
        other[change][:, 1] = 1.0 - other[change][:, 1].clamp(0, 1)
        changed = (policy(**other) - params).abs().sum((0, 2)) > 0
        assert changed.tolist() == [step >= first for step in range(K)], change


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_weights_are_counted_as_the_settings_say(action):
    spec = spec_with(action)
    counted = sum(one.numel() for one in SequencePolicy(spec, CONFIG).parameters_in_order())
    assert CONFIG.num_weights(spec) == counted


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_worlds_keep_their_contexts_and_what_they_got(action):
    """Against the slow way: each world with a list of its last steps, cut at ends."""
    agent, worlds, draw = agent_of(action), 3, torch.Generator().manual_seed(2)
    state, told = agent.empty_state(worlds), [[] for _ in range(worlds)]
    got = [0.0] * worlds
    for step in range(9):
        obs, reward = torch.randn(worlds, 4, generator=draw), torch.randn(worlds, generator=draw)
        chosen = agent.act(obs, state=state)
        for world in range(worlds):
            told[world] = [*told[world], [(7.0 - got[world]) / 2.0, obs[world], torch.zeros(action.size)]][-K:]
            to_go = torch.tensor([[one[0] for one in told[world]]])
            seen = agent.normaliser(torch.stack([one[1] for one in told[world]])[None])
            params = agent.policy(to_go, seen, torch.stack([one[2] for one in told[world]])[None])
            assert torch.allclose(agent.policy.distribution.mode(params)[0, -1], chosen[world], atol=1e-5)
            told[world][-1][2] = chosen[world]
            got[world] += float(reward[world])
        valid = torch.ones(worlds, dtype=torch.bool)
        if step == 3:
            valid[0], told[0], got[0] = False, [], 0.0  # it has begun an episode
        agent.receive(reward, valid, state)
        if step == 5:
            state[1] = 0
            told[1], got[1] = [], 0.0


def test_noise_moves_numbers_and_choices():
    agent = agent_of(ACTIONS["both"])
    obs = torch.randn(64, 4)
    noise = agent.policy.distribution.noise((64,), torch.Generator().manual_seed(0), CPU)
    assert not torch.equal(agent.act(obs), agent.act(obs, noise))
    action, params, value = agent.sample(obs, torch.zeros_like(noise), agent.empty_state(64))
    assert torch.equal(action, agent.act(obs)) and params.shape == noise.shape and value is None


def test_it_is_not_exported():
    agent = agent_of(ACTIONS["numbers"])
    with pytest.raises(UsageError, match="play or serve it, it is not exported"):
        agent.policy.mode(torch.zeros(1, 4))
    with pytest.raises(UsageError, match="play or serve it, it is not exported"):
        PolicyModule(agent)


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_it_learns_what_it_is_shown(action):
    agent, batch = agent_of(action), contexts(action)
    updater = Sequence(agent, CONFIG.model_copy(update={"learning_rate": 1e-2}))
    for _ in range(100):
        updater.begin()
        updater.update(batch)
    assert updater.metrics()["action_loss"] < 0.05
    if action.numbers:
        assert float(agent.policy.log_std.detach().exp().max()) < 0.7


def test_the_spread_of_numbers_is_that_of_their_errors():
    agent, batch = agent_of(ACTIONS["numbers"]), contexts(ACTIONS["numbers"])
    updater, log_std = Sequence(agent, CONFIG), agent.policy.log_std
    params = agent.policy(batch.to_go / agent.normaliser.unit, agent.normaliser(batch.obs), batch.action)
    errors = (params - batch.action.clamp(-1, 1)).square().mean((0, 1)).detach()
    with torch.no_grad():
        log_std.copy_(errors.log() / 2)
    updater._losses(batch)[1].backward()
    torch.testing.assert_close(log_std.grad, torch.zeros_like(log_std), atol=1e-5, rtol=0)


def test_steps_past_the_end_count_for_nothing():
    batch = contexts(ACTIONS["both"])
    batch.is_step[:, 2] = False
    other = replace(batch, action=batch.action.clone(), obs=batch.obs.clone())
    other.obs[:, 2] = 9.0
    other.action[:, 2] = 1.0
    losses = [Sequence(agent_of(ACTIONS["both"]), CONFIG)._losses(one)[0] for one in (batch, other)]
    assert torch.equal(*losses)


def test_what_is_not_finite_changes_nothing():
    agent, batch = agent_of(ACTIONS["numbers"]), contexts(ACTIONS["numbers"])
    updater = Sequence(agent, CONFIG)
    updater.begin()
    before = updater.flat.vector.clone()
    updater.update(replace(batch, obs=batch.obs * torch.nan))
    assert torch.equal(before, updater.flat.vector) and updater.metrics()["skipped_updates"] == 1


def test_two_halves_of_a_group_are_one_update():
    """Each learns from its half, and the sum of their gradients is that of the whole."""
    batch = contexts(ACTIONS["both"], batch=6)
    whole = Sequence(agent_of(ACTIONS["both"]), CONFIG)
    whole.update(batch)
    halves, sums = [], []
    for part in (slice(0, 3), slice(3, 6)):
        half = Sequence(agent_of(ACTIONS["both"]), CONFIG, share=0.5, reduce=lambda bucket: sums.append(bucket.clone()))
        half.update(Contexts(batch.to_go[part], batch.obs[part], batch.action[part], batch.is_step[part]))
        halves.append(half)
    again = Sequence(
        agent_of(ACTIONS["both"]), CONFIG, share=0.5, reduce=lambda bucket: bucket.copy_(sums[0] + sums[1])
    )
    again.update(Contexts(batch.to_go[:3], batch.obs[:3], batch.action[:3], batch.is_step[:3]))
    assert torch.allclose(again.flat.bucket, whole.flat.bucket, atol=1e-6)


def test_numbers_count_within_the_limits_and_choices_by_their_logits():
    kind = ACTIONS["both"]
    params = torch.tensor([[0.5, 0.0, 0.0, 0.0]])
    each, distance = action_losses(params, torch.tensor([[3.0, 1.0]]), kind)
    assert torch.allclose(distance, torch.tensor([[0.25]]))
    assert torch.allclose(each, torch.tensor([0.25 + math.log(3)]))
    assert read_as(torch.tensor([[3.0, 1.0]]), kind).tolist() == [[1.0, 0.0, 1.0, 0.0]]
