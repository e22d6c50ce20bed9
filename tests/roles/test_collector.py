from functools import partial

import gymnasium
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gmi_drl.algo.captured import WARM_UP_CALLS
from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.ppo import PPO
from gmi_drl.learners import PPOConfig
from gmi_drl.roles.collector import Collector
from gmi_drl.roles.phases import PhaseClock
from gmi_drl.tasks import make
from gmi_drl.tasks.adapters.gymnasium import GymnasiumTask

N, T = 6, 5


def make_collector(seed=0, task=None, **config):
    task = task or make("ant", num_env=N, seed=seed)
    torch.manual_seed(0)
    policy = ActorCritic(task.spec).to(task.device)
    generator = torch.Generator(task.device).manual_seed(seed)
    normaliser = Normaliser(task.spec.num_obs, task.device)
    return Collector(task, policy, normaliser, PPOConfig(horizon=T, **config), generator)


def collect(collector):
    clock = PhaseClock(collector.task.device)
    clock.start()
    delta = collector.collect(clock)
    return delta, clock.read()


def test_a_rollout_holds_what_was_seen_and_done():
    collector = make_collector()
    first = collector.task.obs.clone()
    delta, phases = collect(collector)
    rollout = collector.rollout
    assert torch.equal(rollout.obs[0], first)  # the normaliser has seen nothing yet: it changes nothing
    assert delta[0] == N * T and phases["sim_s"] > 0 and phases["act_s"] > 0
    values = collector.policy.value(rollout.obs)
    torch.testing.assert_close(rollout.value, values, atol=0, rtol=0)
    torch.testing.assert_close(rollout.mean, collector.policy.actor(rollout.obs), atol=1e-5, rtol=1e-5)
    assert rollout.advantage.abs().sum() > 0 and rollout.valid.all()


def test_first_episodes_do_not_all_time_out_together():
    lengths = make_collector().task.episode_length
    assert len(set(lengths.tolist())) > N // 2 and lengths.min() >= 0 and lengths.max() < 1000


def test_a_time_out_is_followed_by_the_value_of_the_last_observation():
    collector = make_collector()
    collector.task.episode_length.fill_(collector.task.spec.episode_steps - 2)  # all end at the second step
    collect(collector)
    rollout = collector.rollout
    assert rollout.done[1].all() and not rollout.done[0].any()
    assert rollout.bootstrap[1].abs().min() > 0 and rollout.bootstrap[0].abs().max() == 0
    assert collector.episodes[0] == N and collector.episodes[2] == 2 * N
    assert collector.episodes[1] == pytest.approx(rollout.reward[:2].sum().item(), rel=1e-5)
    torch.testing.assert_close(collector.episode, torch.stack((rollout.reward[2:].sum(0), torch.full((N,), T - 2.0))))


def test_rsl_rls_time_out_uses_the_value_one_step_earlier():
    collector = make_collector(bootstrap="last_value")
    collector.task.episode_length.fill_(collector.task.spec.episode_steps - 2)
    collect(collector)
    torch.testing.assert_close(collector.rollout.bootstrap[1], collector.rollout.value[1])
    assert collector.rollout.bootstrap[0].abs().max() == 0


def test_a_world_that_goes_wrong_is_counted_and_not_learnt_from():
    collector = make_collector()
    act = collector.policy.act

    def poisoned(obs, noise):
        action, mean = act(obs, noise)
        action[2] = float("nan")
        return action, mean

    collector.policy.act = poisoned
    collect(collector)
    rollout = collector.rollout
    assert not rollout.valid[:, 2].any() and rollout.valid[:, :2].all()
    assert collector.episodes[3] == T and rollout.advantage[:, 2].abs().max() == 0
    assert rollout.advantage.isfinite().all() and rollout.returns.isfinite().all()


@pytest.mark.parametrize("steps_before", [1, 3])
def test_saved_state_continues_bit_identically(steps_before):
    first = make_collector()
    for _ in range(steps_before):
        collect(first)
    second = make_collector(seed=9)
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    for collector in (first, second):
        collect(collector)
    for name, tensor in vars(first.rollout).items():
        if isinstance(tensor, torch.Tensor):
            assert torch.equal(tensor, getattr(second.rollout, name)), name
    assert torch.equal(second.episode, first.episode) and torch.equal(second.episodes, first.episodes)


def pendulums(mode=AutoresetMode.SAME_STEP, steps=3):
    worlds = [partial(gymnasium.make, "Pendulum-v1", max_episode_steps=steps)] * N
    return GymnasiumTask(SyncVectorEnv(worlds, autoreset_mode=mode))


def test_steps_that_begin_episodes_are_not_learnt_from_and_not_counted():
    collector = make_collector(task=pendulums(AutoresetMode.NEXT_STEP))
    collect(collector)
    rollout = collector.rollout
    assert rollout.valid.tolist() == [[1] * N] * 3 + [[0] * N, [1] * N]
    assert rollout.bootstrap[2].abs().min() > 0 and rollout.bootstrap[3].abs().max() == 0
    assert rollout.advantage[3].abs().max() == 0 and collector.episodes[[0, 2, 3]].tolist() == [N, 3 * N, 0]
    assert collector.episodes[1] == pytest.approx(rollout.reward[:3].sum().item())
    torch.testing.assert_close(collector.episode, torch.stack((rollout.reward[4], torch.ones(N))))


def test_worlds_that_give_no_state_begin_anew_when_a_run_goes_on():
    first, second = make_collector(task=pendulums(steps=100)), make_collector(task=pendulums(steps=100))
    for collector in (first, second):
        collect(collector)
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    assert second.episode.abs().max() == 0
    collect(second)
    assert second.episode[1].tolist() == [T] * N


@pytest.mark.gpu
def test_on_a_gpu_neither_a_rollout_nor_an_update_waits_for_the_device():
    pytest.importorskip("mujoco_warp", reason="needs the extra [warp]")
    collector = make_collector(task=make("ant", num_env=64, device="cuda", physics="warp"))
    rollout, ppo = collector.rollout, PPO(collector.policy, collector.config)
    order = torch.randperm(rollout.horizon * rollout.num_env, device="cuda")
    for mode in (*["default"] * (WARM_UP_CALLS + 1), "error"):  # captures wait
        torch.cuda.set_sync_debug_mode(mode)
        try:
            collector.collect(PhaseClock(collector.task.device))
            rollout.normalise_advantages(0.0, 1.0)
            ppo.update(rollout, order)
        finally:
            torch.cuda.set_sync_debug_mode("default")
