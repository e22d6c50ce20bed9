"""Tasks of two sizes as one."""

from contextlib import closing

import pytest
import torch

from gmi_drl import tasks
from gmi_drl.errors import UsageError
from gmi_drl.tasks import make
from gmi_drl.tasks.check import check_task
from gmi_drl.tasks.sim_task import SimTask
from gmi_drl.tasks.task import knows_final_obs
from gmi_drl.workload import TASK_SPECS

TWO = 'several:ball_balance+ant{"units": [2.0, 4.0]}'


def test_it_keeps_the_contract_of_tasks():
    check_task(lambda seed: make("several:ball_balance+ant", num_env=4, seed=seed), steps=400)


def test_environments_are_in_turn_and_padded_and_rewards_count_in_units():
    draw = torch.Generator().manual_seed(0)
    with (
        closing(make(TWO, num_env=5, seed=3)) as task,
        closing(make("ball_balance", num_env=3, seed=3)) as balls,
        closing(make("ant", num_env=2, seed=4)) as ants,
    ):
        sizes = [one.spec.observation.size for one in (balls, ants)]
        total = sum(sizes)
        assert task.spec.observation.size == total + 2 and task.spec.action.size == 8
        assert task.spec.name == TWO
        for one in (task, balls, ants):
            one.reset()
        for _ in range(5):
            action = 2 * torch.rand(5, 8, generator=draw) - 1
            obs, reward, terminated, truncated, info = task.step(action)
            for number, (one, unit) in enumerate(((balls, 2.0), (ants, 4.0))):
                own = slice(number * sizes[0], number * sizes[0] + sizes[number])
                of_own = one.step(action[number::2, : one.spec.action.size])
                assert torch.equal(obs[number::2, own], of_own[0])
                assert not obs[number::2, : own.start].any() and not obs[number::2, own.stop : total].any()
                assert obs[number::2, total:].tolist() == [[1.0 - number, float(number)]] * one.num_env
                assert torch.equal(reward[number::2], of_own[1] / unit)
                assert torch.equal((terminated | truncated)[number::2], of_own[2] | of_own[3])
                assert torch.equal(info["final_obs"][number::2, own], of_own[4]["final_obs"])
        assert task.episode_length.tolist() == [5] * 5


def test_one_of_the_tasks_alone():
    name = 'several:ball_balance+ant{"only": "ant", "units": [1, 4]}'
    with closing(make(name, num_env=3, seed=2)) as task, closing(make("ant", num_env=3, seed=3)) as ants:
        obs, reward, *_ = task.step(torch.zeros(3, 8))
        wanted = ants.step(torch.zeros(3, 8))
        assert torch.equal(obs[:, -2 - ants.spec.observation.size : -2], wanted[0])
        assert obs[:, -2:].tolist() == [[0.0, 1.0]] * 3 and torch.equal(reward, wanted[1] / 4)


def test_a_task_that_is_named_twice_is_shown_once():
    name = 'several:ball_balance+ball_balance{"only": "ball_balance"}'
    with closing(make(name, num_env=2)) as task:
        assert task.num_env == len(task.reset()) == 2 and task.obs[:, -2:].tolist() == [[1.0, 0.0]] * 2


def test_fewer_environments_than_tasks():
    with closing(make(TWO, num_env=1, seed=0)) as task:
        assert task.reset().shape == (1, task.spec.observation.size)
        task.step(torch.zeros(1, 8))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("several:ant", "names no two tasks"),
        ("several:ant+", "names no two tasks"),
        ('several:ant+ball_balance{"units": [1]}', "units are 2 numbers above 0"),
        ('several:ant+ball_balance{"units": [1, 0]}', "units are 2 numbers above 0"),
        ('several:ant+ball_balance{"unit": 1}', "takes units and only, not unit"),
        ('several:ant+ball_balance{"only": "humanoid"}', "only is one of ant, ball_balance, not humanoid"),
        ("several:ant+antt", "there is no task 'antt'"),
    ],
)
def test_what_is_wrong_is_named(name, reason):
    with pytest.raises(UsageError, match=reason):
        make(name, num_env=2)


def test_tasks_with_choices_or_images_are_refused():
    pytest.importorskip("gymnasium")
    with pytest.raises(UsageError, match="whose actions are numbers, gymnasium:CartPole-v1 has"):
        make("several:ant+gymnasium:CartPole-v1", num_env=2)


def test_the_network_is_the_largest_of_the_tasks():
    sizes = {TASK_SPECS[name].hidden for name in ("ant", "humanoid")}
    assert len(sizes) == 2
    with closing(make("several:ant+humanoid", num_env=2, seed=0)) as task:
        assert task.spec.hidden == max(sizes, key=sum)


def test_tasks_are_closed_if_a_later_one_is_refused(monkeypatch):
    closed = []
    monkeypatch.setattr(SimTask, "close", lambda task: closed.append(task.spec.name))
    with pytest.raises(UsageError, match="actions are numbers"):
        make("several:ant+gymnasium:CartPole-v1", num_env=2, seed=0)
    assert closed == ["ant"]


@pytest.mark.parametrize("knows", [True, False])
def test_it_knows_last_observations_if_all_of_its_tasks_do(monkeypatch, knows):
    monkeypatch.setattr(SimTask, "knows_final_obs", knows, raising=False)
    with closing(make("several:ball_balance+ant", num_env=2, seed=0)) as task:
        assert knows_final_obs(task) is knows


def test_its_tasks_run_without_graphs_where_that_is_set(monkeypatch):
    told, make_sim = [], tasks.make_sim
    monkeypatch.setattr(tasks, "make_sim", lambda *words: told.append(words[5]) or make_sim(*words))
    make("several:ball_balance+ant", num_env=2, cuda_graphs=False).close()
    assert told == [False, False]
