"""Policies with memories: an agent's rollouts, and what PPO and A3C make of them, from the states that were stored."""

from dataclasses import replace

import pytest
import torch

from gmi_drl.algo.a3c import A3C
from gmi_drl.algo.agent import make_agent
from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.algo.networks.memory import Past
from gmi_drl.algo.ppo import PPO
from gmi_drl.config.learners import A3CConfig, PPOConfig
from gmi_drl.errors import UsageError
from gmi_drl.launch.job import require_minibatches
from gmi_drl.roles.training.actor import Actor
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.tasks import make

N, T, L = 5, 6, 3
CPU = torch.device("cpu")
MEMORY = {"memory_size": 8, "sequence": L, "horizon": T, "hidden": (8,)}


def make_actor(config, *, seed=0, evaluate=None):
    """Acts in Ant, whose episodes end soon."""
    task = make("ant", num_env=N, seed=seed)
    task.spec = replace(task.spec, episode_steps=8)
    agent = make_agent(task.spec, config, CPU, seed=0)
    with torch.no_grad():
        agent.policy.actor.layers[-1].weight.mul_(30)
    judge = None if evaluate is None else lambda rollout: agent.evaluate_actions(rollout, config)
    return Actor(task, agent, config, torch.Generator().manual_seed(seed), evaluate=judge)


def collect(actor, slot=None):
    slot = slot or actor.make_slot()
    actor.collect(slot, PhaseClock(CPU))
    return slot.rollout


@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_a_rollout_has_the_states_that_its_sequences_begin_with(memory):
    actor = make_actor(PPOConfig(memory=memory, **MEMORY))
    first, rollout = collect(actor), collect(actor)
    policy = actor.agent.policy
    assert rollout.state.shape == (T // L + 1, N, policy.state_size) and first.state[0].abs().max() == 0
    torch.testing.assert_close(rollout.state[0], first.state[-1], rtol=0, atol=0)
    assert rollout.done.any() and rollout.state.abs().max() > 0
    with torch.no_grad():
        for k in range(T // L):
            steps = slice(k * L, (k + 1) * L)
            past = Past(rollout.state[k], rollout.done[steps].flatten())
            params, value, after = policy.remember(rollout.obs[steps].flatten(0, 1), past)
            torch.testing.assert_close(params, rollout.params[steps].flatten(0, 1))
            torch.testing.assert_close(value, rollout.value[steps].flatten())
            torch.testing.assert_close(after, rollout.state[k + 1])


def test_an_end_zeroes_the_state_of_its_environment_alone():
    actor = make_actor(PPOConfig(memory="gru", **MEMORY | {"sequence": 1}))
    rollout = collect(actor)
    is_zero = rollout.state[1:].abs().amax(-1) == 0
    assert torch.equal(is_zero, rollout.done > 0) and rollout.done.any()


@pytest.mark.parametrize("minibatches", [1, 3])
def test_ppo_begins_from_the_stored_states(minibatches):
    """At the policy that acted the first mini-batch has no divergence, whatever the order of its sequences."""
    config = PPOConfig(memory="lstm", minibatches=minibatches, epochs=1, schedule="fixed", **MEMORY)
    actor = make_actor(config)
    ppo = PPO(actor.agent.policy, config)
    collect(actor)
    rollout = collect(actor)
    ppo.old_log_std.copy_(rollout.log_std)
    rollout.shuffle(torch.randperm(rollout.units), ppo._memory_for(rollout), minibatches)
    for step in ppo._gradient_steps:
        step()
        assert ppo.flat.tail[2] < 1e-9 and ppo.flat.gradient.abs().max() > 0
    ppo.update(rollout, torch.randperm(rollout.units))
    assert ppo.metrics()["kl"] < 1e-2 and ppo.metrics()["skipped_updates"] == 0


def test_more_mini_batches_than_sequences_are_refused():
    config = PPOConfig(memory="gru", minibatches=11, **MEMORY)
    actor = make_actor(config)
    rollout = collect(actor)
    with pytest.raises(UsageError, match=r"10 sequences are too few for 11 mini-batches.*learner.minibatches=10"):
        PPO(actor.agent.policy, config).update(rollout, torch.randperm(rollout.units))
    with pytest.raises(UsageError, match="a GMI learns from 10 sequences of 5 environments in 11 mini-batches"):
        require_minibatches(config, N)


@pytest.mark.parametrize("slices", [1, 3])
def test_a3c_begins_from_the_stored_states(slices):
    config = A3CConfig(memory="gru", minibatches=slices, **MEMORY)
    actor = make_actor(config, evaluate="actions")
    collect(actor)
    rollout = collect(actor)
    form = config.rollout_form(actor.task.spec, N)
    batch = ExperienceBatch.empty(form, 1, CPU)
    for kind in form.kinds:
        if kind.name != "facts":
            getattr(batch, kind.name)[0].copy_(getattr(rollout, kind.name))
    a3c = A3C(actor.agent.policy, actor.agent.normaliser, config)
    experience, estimate = a3c._memory_for(batch)
    experience.fill(batch, a3c.normaliser)
    estimate()
    for step in a3c._gradient_steps:
        step()
        assert a3c.flat.tail[2] < 1e-9, "no divergence from the policy that acted"
    value, _ = a3c._judge(experience.samples)
    torch.testing.assert_close(experience.in_time(value)[0], rollout.value)
    with torch.no_grad():
        torch.testing.assert_close(
            a3c._last_value(experience)[0], actor.agent.value(rollout.last_obs, rollout.last_past)
        )
    a3c.update(batch)
    assert a3c.metrics()["rho"] > 0.9


def test_saved_memories_continue_bit_identically():
    config = PPOConfig(memory="gru", **MEMORY)
    first, second = make_actor(config), make_actor(config, seed=9)
    collect(first)
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    expected, found = collect(first), collect(second)
    for name, tensor in vars(expected).items():
        if isinstance(tensor, torch.Tensor):
            assert torch.equal(tensor, getattr(found, name)), name
    assert expected.state[0].abs().max() > 0
