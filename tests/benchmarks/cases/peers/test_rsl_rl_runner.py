import pytest
import torch

from gmi_drl.config.learners import PPOConfig
from gmi_drl.tasks import make

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

from gmi_drl.benchmarks.cases.peers import rsl_rl_runner
from gmi_drl.tasks.rsl_rl_env import RslRlEnv

N, SCALE = 16, 0.05


def make_env():
    return RslRlEnv(make("ant", num_env=N, seed=3), SCALE)


def test_bad_environments_are_no_episodes():
    env, rows = make_env(), []
    reporter = rsl_rl_runner.Reporter(env, 1, rows.append)
    action = torch.zeros(N, 8)
    action[2] = torch.nan
    _, reward, done, extras = env.step(action)
    reporter.process_env_step(reward, done, extras)
    reporter.log(it=0, collect_time=1.0, learn_time=2.0, loss_dict={})
    assert rows[0]["bad_environments"] == 1 and rows[0]["episodes"] == 0


def test_returns_of_episodes_are_not_scaled():
    env, rows = make_env(), []
    reporter = rsl_rl_runner.Reporter(env, 2, rows.append)
    done, none = torch.zeros(N, dtype=torch.bool), torch.zeros(N, dtype=torch.bool)
    reporter.process_env_step(torch.full((N,), 2 * SCALE), done, {"bad": none, "valid": ~none})
    done[:4] = True
    reporter.process_env_step(torch.full((N,), 3 * SCALE), done, {"bad": none, "valid": ~none})
    reporter.log(it=4, collect_time=1.0, learn_time=2.0, loss_dict={})
    row = rows[0]
    assert (row["episodes"], row["length_sum"], row["env_steps"]) == (4, 8, 10 * N)
    assert row["return_sum"] == pytest.approx(20) and row["reward_mean"] == pytest.approx(2.5)


def test_first_episodes_are_staggered_and_every_iteration_is_reported(monkeypatch):
    rows, lengths = [], []
    task = make("ant", num_env=N, seed=1)
    monkeypatch.setattr(rsl_rl_runner, "make", lambda *args, **more: task)

    def report(row):
        rows.append(row)
        lengths.append(task.episode_length.clone())

    rsl_rl_runner.train(1, N, 3, 1, report)
    assert [row["env_steps"] for row in rows] == [PPOConfig().horizon * N * i for i in (1, 2, 3)]
    assert all(row[phase] > 0 for row in rows for phase in ("sim_s", "act_s", "learn_s"))
    assert len(lengths[0].unique()) > N // 2
