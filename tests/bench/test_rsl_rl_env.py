import pytest
import torch

from gmi_drl.algo.networks import ActorCritic
from gmi_drl.config import PPOConfig, default_config
from gmi_drl.tasks import make

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

from gmi_drl.bench import rsl_rl_env

N, SCALE = 16, 0.05


def make_env():
    return rsl_rl_env.TaskEnv(make("ant", num_env=N, seed=3), SCALE)


def test_the_contract_of_a_vec_env():
    from rsl_rl.env import VecEnv

    env = make_env()
    assert all(hasattr(env, name) for name in VecEnv.__annotations__)
    assert (env.num_envs, env.num_actions, env.max_episode_length) == (N, 8, 1000)
    before = env.get_observations()["policy"].clone()
    obs, reward, done, extras = env.step(torch.zeros(N, 8))
    assert obs["policy"].shape == (N, 60) and not torch.equal(obs["policy"], before)
    assert reward.shape == done.shape == extras["time_outs"].shape == (N,)


def test_rewards_are_scaled_and_time_outs_told_from_falls():
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


def test_worlds_that_went_wrong_end_without_a_time_out_and_are_no_episodes():
    env, rows = make_env(), []
    reporter = rsl_rl_env.Reporter(env, 1, rows.append)
    action = torch.zeros(N, 8)
    action[2] = torch.nan
    _, reward, done, extras = env.step(action)
    assert done[2] and extras["bad"][2] and not extras["time_outs"][2]
    reporter.process_env_step(reward, done, extras)
    reporter.log(it=0, collect_time=1.0, learn_time=2.0, loss_dict={})
    assert rows[0]["bad_worlds"] == 1 and rows[0]["episodes"] == 0


def test_returns_of_episodes_are_not_scaled():
    env, rows = make_env(), []
    reporter = rsl_rl_env.Reporter(env, 2, rows.append)
    done, none = torch.zeros(N, dtype=torch.bool), torch.zeros(N, dtype=torch.bool)
    reporter.process_env_step(torch.full((N,), 2 * SCALE), done, {"bad": none})
    done[:4] = True
    reporter.process_env_step(torch.full((N,), 3 * SCALE), done, {"bad": none})
    reporter.log(it=4, collect_time=1.0, learn_time=2.0, loss_dict={})
    row = rows[0]
    assert (row["episodes"], row["length_sum"], row["env_steps"]) == (4, 8, 10 * N)
    assert row["return_sum"] == pytest.approx(20) and row["reward_mean"] == pytest.approx(2.5)


def test_its_networks_and_settings_are_ours():
    from rsl_rl.runners import OnPolicyRunner

    env = make_env()
    ppo = default_config(env.task.spec).ppo.model_copy(update={"gamma": 0.5, "init_std": 0.4})
    runner = OnPolicyRunner(env, rsl_rl_env.runner_config(env.task.spec, ppo), device="cpu")
    ours = ActorCritic(env.task.spec, ppo.init_std)
    for theirs, mine in ((runner.alg.actor.mlp, ours.actor), (runner.alg.critic.mlp, ours.critic)):
        assert [p.shape for p in theirs.parameters()] == [p.shape for p in mine.parameters()]
    torch.testing.assert_close(runner.alg.actor.distribution.log_std_param, ours.log_std)
    assert runner.alg.actor.obs_normalization and runner.alg.critic.obs_normalization
    assert all(getattr(runner.alg, name, value) == value for name, value in rsl_rl_env.ppo_arguments(ppo).items())
    assert runner.alg.gamma == 0.5 and runner.alg.use_clipped_value_loss


def test_first_episodes_are_staggered_and_every_iteration_is_reported(monkeypatch):
    rows, lengths = [], []
    task = make("ant", num_env=N, seed=1)
    monkeypatch.setattr(rsl_rl_env, "make", lambda *args, **more: task)

    def report(row):
        rows.append(row)
        lengths.append(task.episode_length.clone())

    rsl_rl_env.train(1, N, 3, 1, report)
    assert [row["env_steps"] for row in rows] == [PPOConfig().horizon * N * i for i in (1, 2, 3)]
    assert all(row[phase] > 0 for row in rows for phase in ("sim_s", "act_s", "learn_s"))
    assert len(lengths[0].unique()) > N // 2
