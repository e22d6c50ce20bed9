import weakref
from dataclasses import dataclass, fields
from functools import partial

import gymnasium
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gmi_drl.algo.agent import make_agent
from gmi_drl.algo.normaliser import moments
from gmi_drl.config.learners import PPOConfig
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.roles.training.actor import Actor
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.tasks import make
from gmi_drl.tasks.adapters.gymnasium import GymnasiumTask
from gmi_drl.workload.network_sizes import NetworkSettings

N, T = 6, 5


def make_actor(seed=0, task=None, **config):
    """Nobody trains its agent."""
    task = task or make("ant", num_env=N, seed=seed)
    agent = make_agent(task.spec, PPOConfig(), task.device, seed=0)
    generator = torch.Generator(task.device).manual_seed(seed)
    return Actor(task, agent, PPOConfig(horizon=T, **config), generator)


def collect(actor, slot=None):
    """The rollout, and the phases."""
    slot = slot or actor.make_slot()
    clock = PhaseClock(actor.task.device)
    clock.start()
    actor.collect(slot, clock)
    return slot.rollout, clock.read()


def test_a_rollout_has_observations_and_actions():
    actor = make_actor()
    first = actor.task.obs.clone()
    rollout, phases = collect(actor)
    assert torch.equal(rollout.obs[0], first)  # the normaliser has seen nothing yet: it changes nothing
    assert torch.equal(rollout.last_obs, actor.task.obs)
    assert phases["sim_s"] > 0 and phases["act_s"] > 0
    torch.testing.assert_close(rollout.delta, moments(rollout.obs.flatten(0, 1)))
    values = actor.agent.policy.value(rollout.obs)
    torch.testing.assert_close(rollout.value, values, atol=0, rtol=0)
    torch.testing.assert_close(rollout.params, actor.agent.policy.actor(rollout.obs), atol=1e-5, rtol=1e-5)
    assert rollout.advantage.abs().sum() > 0 and rollout.valid.all()
    assert rollout.sums.tolist() == [pytest.approx(rollout.reward.sum().item()), 0, 0, 0, 0]


@dataclass(frozen=True)
class Told:
    """All that an actor and its agent need to know of a learner."""

    hidden: tuple = (8,)
    activation: str = "tanh"
    init_std: float = 0.5
    horizon: int = T
    gamma: float = 0.9
    lam: float = 0.8
    reward_scale: float = 2.0
    bootstrap: str = "last_value"

    @property
    def network(self):
        return NetworkSettings(self.hidden, self.activation)

    def rollout_form(self, task, num_env, num_terms):
        return RolloutForm(self.horizon, num_env, task.observation, task.action, num_terms)


def test_an_actor_is_made_by_any_learners_configuration():
    told = Told()
    ppo = PPOConfig(**{field.name: getattr(told, field.name) for field in fields(Told)})
    one, other = (collect(make_actor_by(config))[0] for config in (told, ppo))
    assert one.advantage.abs().sum() > 0
    assert all(torch.equal(tensor, vars(other)[name]) for name, tensor in tensors_of(one))


def make_actor_by(config):
    task = make("ant", num_env=N, seed=0)
    agent = make_agent(task.spec, config, task.device, seed=0)
    return Actor(task, agent, config, torch.Generator().manual_seed(0))


def test_two_slots_in_turn_get_the_rollouts_of_one():
    one, two = make_actor(), make_actor()
    slot, slots = one.make_slot(), [two.make_slot(), two.make_slot()]
    for turn in range(4):
        rollout, other = collect(one, slot)[0], collect(two, slots[turn % 2])[0]
        assert all(torch.equal(tensor, vars(other)[name]) for name, tensor in tensors_of(rollout))
    kept = weakref.ref(slots[0])
    slots.clear()
    assert kept() is None  # the actor holds no slot


def test_nothing_is_left_of_the_rollout_before():
    clean, used = make_actor(), make_actor()
    expected, slot = collect(clean)[0], used.make_slot()
    for _, tensor in tensors_of(slot.rollout):
        tensor.fill_(7)
    found, _ = collect(used, slot)
    for name, tensor in tensors_of(expected):
        assert torch.equal(tensor, getattr(found, name)), name


def tensors_of(rollout):
    return [(name, tensor) for name, tensor in vars(rollout).items() if isinstance(tensor, torch.Tensor)]


def test_first_episodes_do_not_all_time_out_together():
    lengths = make_actor().task.episode_length
    assert len(set(lengths.tolist())) > N // 2 and lengths.min() >= 0 and lengths.max() < 1000


def test_a_time_out_is_followed_by_the_value_of_the_last_observation():
    actor = make_actor()
    actor.task.episode_length.fill_(actor.task.spec.episode_steps - 2)  # all end at the second step
    rollout, _ = collect(actor)
    assert rollout.done[1].all() and not rollout.done[0].any()
    assert rollout.bootstrap[1].abs().min() > 0 and rollout.bootstrap[0].abs().max() == 0
    assert rollout.sums[[1, 3, 4]].tolist() == [N, 2 * N, 0]
    assert rollout.sums[2].item() == pytest.approx(rollout.reward[:2].sum().item(), rel=1e-5)
    running = torch.stack((rollout.reward[2:].sum(0), torch.full((N,), T - 2.0)))
    torch.testing.assert_close(actor.running_episodes, running)


def test_rsl_rls_time_out_uses_the_value_one_step_earlier():
    actor = make_actor(bootstrap="last_value")
    actor.task.episode_length.fill_(actor.task.spec.episode_steps - 2)
    rollout, _ = collect(actor)
    torch.testing.assert_close(rollout.bootstrap[1], rollout.value[1])
    assert rollout.bootstrap[0].abs().max() == 0


def test_an_environment_that_goes_wrong_is_counted_and_not_learnt_from():
    actor = make_actor()
    act = actor.agent.policy.act

    def poisoned(obs, noise):
        action, mean = act(obs, noise)
        action[2] = float("nan")
        return action, mean

    actor.agent.policy.act = poisoned
    rollout, _ = collect(actor)
    assert not rollout.valid[:, 2].any() and rollout.valid[:, :2].all()
    assert rollout.sums[4] == T and rollout.advantage[:, 2].abs().max() == 0
    assert rollout.advantage.isfinite().all() and rollout.returns.isfinite().all()


@pytest.mark.parametrize("steps_before", [1, 3])
def test_saved_state_continues_bit_identically(steps_before):
    first = make_actor()
    for _ in range(steps_before):
        collect(first)
    second = make_actor(seed=9)
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    expected, found = (collect(actor)[0] for actor in (first, second))
    for name, tensor in tensors_of(expected):
        assert torch.equal(tensor, getattr(found, name)), name
    assert torch.equal(second.running_episodes, first.running_episodes)


def pendulums(mode=AutoresetMode.SAME_STEP, steps=3):
    worlds = [partial(gymnasium.make, "Pendulum-v1", max_episode_steps=steps)] * N
    return GymnasiumTask(SyncVectorEnv(worlds, autoreset_mode=mode))


def test_steps_that_begin_episodes_are_not_learnt_from_and_not_counted():
    actor = make_actor(task=pendulums(AutoresetMode.NEXT_STEP))
    rollout, _ = collect(actor)
    assert rollout.valid.tolist() == [[1] * N] * 3 + [[0] * N, [1] * N]
    assert rollout.bootstrap[2].abs().min() > 0 and rollout.bootstrap[3].abs().max() == 0
    assert rollout.advantage[3].abs().max() == 0 and rollout.sums[[1, 3, 4]].tolist() == [N, 3 * N, 0]
    assert rollout.sums[2].item() == pytest.approx(rollout.reward[:3].sum().item())
    torch.testing.assert_close(actor.running_episodes, torch.stack((rollout.reward[4], torch.ones(N))))


def test_tasks_without_a_state_begin_anew_when_a_run_goes_on():
    first, second = make_actor(task=pendulums(steps=100)), make_actor(task=pendulums(steps=100))
    for actor in (first, second):
        collect(actor)
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    assert second.running_episodes.abs().max() == 0
    collect(second)
    assert second.running_episodes[1].tolist() == [T] * N
