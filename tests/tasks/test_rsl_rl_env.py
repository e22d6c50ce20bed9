import pytest
import torch

from gmi_drl.tasks import make

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

from gmi_drl.tasks.rsl_rl_env import RslRlEnv

N, SCALE = 16, 0.05


def make_env():
    return RslRlEnv(make("ant", num_env=N, seed=3), SCALE)


def test_the_contract_of_a_vec_env():
    from rsl_rl.env import VecEnv

    env = make_env()
    assert all(hasattr(env, name) for name in VecEnv.__annotations__)
    assert (env.num_envs, env.num_actions, env.max_episode_length) == (N, 8, 1000)
    before = env.get_observations()["policy"].clone()
    obs, reward, done, extras = env.step(torch.zeros(N, 8))
    assert obs["policy"].shape == (N, 60) and not torch.equal(obs["policy"], before)
    assert reward.shape == done.shape == extras["time_outs"].shape == (N,)


def test_a_task_that_writes_its_observations_in_place_does_not_change_what_was_given():
    env = make_env()
    given = env.get_observations()["policy"]
    env.task.obs.zero_()
    assert given.any()


def test_what_a_simulator_sends_to_rsl_rls_logger_is_passed_on():
    env = make_env()
    assert "log" not in env.step(torch.zeros(N, 8))[3]
    env.task.log = {"Episode_Reward/alive": 0.5}
    assert env.step(torch.zeros(N, 8))[3]["log"] == env.task.log


def test_other_groups_of_a_task_stand_beside_policy():
    env = make_env()
    env.task.groups = {"critic": torch.ones(N, 3), "policy": torch.zeros(N, 1)}
    obs = env.get_observations()
    assert obs["critic"].shape == (N, 3) and torch.equal(obs["policy"], env.task.obs)


def test_actions_are_clipped_where_that_is_asked_for():
    env, task = RslRlEnv(make("ant", num_env=N, seed=3), clip_actions=0.5), make("ant", num_env=N, seed=3)
    _, reward, _, _ = env.step(torch.full((N, 8), 0.9))
    assert torch.equal(reward, task.step(torch.full((N, 8), 0.5))[1])


def test_rewards_are_scaled_and_time_outs_differ_from_falls():
    env, task = make_env(), make("ant", num_env=N, seed=3)
    env.episode_length_buf = torch.full((N,), 990)
    task.episode_length.fill_(990)
    action = torch.rand(N, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1
    for _ in range(10):
        _, reward, done, extras = env.step(action)
        _, expected, terminated, truncated, _ = task.step(action)
        torch.testing.assert_close(reward, SCALE * expected)
        assert torch.equal(done, terminated | truncated) and torch.equal(extras["time_outs"], truncated)
    assert extras["time_outs"].any()


def test_bad_environments_end_without_a_time_out():
    env = make_env()
    action = torch.zeros(N, 8)
    action[2] = torch.nan
    _, reward, done, extras = env.step(action)
    assert done[2] and extras["bad"][2] and not extras["time_outs"][2] and reward[2] == 0


def test_rsl_rls_own_runner_trains_a_wrapped_task():
    from rsl_rl.runners import OnPolicyRunner

    network = {"class_name": "MLPModel", "hidden_dims": [8]}
    config = {
        "num_steps_per_env": 4,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**network, "distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": network,
        "algorithm": {"class_name": "PPO"},
    }
    runner = OnPolicyRunner(make_env(), config)
    before = [parameter.clone() for parameter in runner.alg.actor.parameters()]
    runner.learn(1, init_at_random_ep_len=True)
    assert not any(map(torch.equal, before, runner.alg.actor.parameters()))
