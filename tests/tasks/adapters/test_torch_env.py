from types import SimpleNamespace

import pytest
import torch
from fakes import FALLS_AT, FakeBox, FakeDict, fake_isaaclab_env, fake_mjlab_env
from gymnasium import spaces

from gmi_drl.errors import UsageError
from gmi_drl.tasks.adapters.torch_env import TorchEnvTask

MAKERS = [fake_isaaclab_env, fake_mjlab_env]


@pytest.mark.parametrize("make_env", MAKERS)
def test_sizes_come_from_the_environment(make_env):
    task = TorchEnvTask(make_env(num_envs=4), "lab:fake")
    assert (task.spec.name, task.spec.observation.size, task.spec.action.size) == ("lab:fake", 3, 2)
    assert (task.spec.episode_steps, task.spec.step_s, task.num_env) == (5, 0.02, 4)


@pytest.mark.parametrize("make_env", MAKERS)
def test_ends_differ_from_time_limits_and_final_obs_is_the_observation_before(make_env):
    task = TorchEnvTask(make_env(), "lab:fake")
    seen = []
    for step in range(1, 6):
        action = torch.full((2, 2), step / 10)
        before = task.obs.clone()
        obs, reward, terminated, truncated, info = task.step(action)
        seen.append((before, obs, reward, terminated, truncated, info["final_obs"]))
        assert info["valid"].all() and not info["bad"].any()
    terminations, truncations = (torch.stack(column).tolist() for column in list(zip(*seen, strict=True))[3:5])
    assert [ended[0] for ended in terminations] == [False, False, True, False, False]
    assert not any(ended[1] for ended in terminations) and [ended[1] for ended in truncations] == [False] * 4 + [True]
    before, obs, reward, _, _, final_obs = seen[FALLS_AT - 1]  # kept since, while the environment wrote to its tensors
    assert final_obs[0].tolist() == before[0].tolist() == [2, 0, pytest.approx(0.2)]
    assert obs[0].tolist() == [0, 0, 0] and torch.equal(final_obs[1], obs[1]) and obs[1, 0] == 3
    torch.testing.assert_close(reward, torch.full((2,), 0.3))


def test_a_given_final_observation_is_taken():
    env = fake_isaaclab_env()
    env.gives_final_obs = True
    task = TorchEnvTask(env, "lab:fake")
    for _ in range(FALLS_AT):
        obs, _, terminated, _, info = task.step(torch.full((2, 2), 0.5))
    assert terminated.tolist() == [True, False] and obs[0].tolist() == [0, 0, 0]
    assert info["final_obs"][0].tolist() == [FALLS_AT, 0, 0.5]


def test_a_fall_at_the_time_limit_is_a_fall():
    task = TorchEnvTask(fake_isaaclab_env(steps=FALLS_AT), "lab:fake")
    for _ in range(FALLS_AT):
        _, _, terminated, truncated, _ = task.step(torch.zeros(2, 2))
    assert terminated.tolist() == [True, False] and truncated.tolist() == [False, True]


def test_a_time_limit_that_is_the_tasks_own_end_terminates():
    env = fake_mjlab_env(steps=2)
    env.cfg = SimpleNamespace(is_finite_horizon=True)
    task = TorchEnvTask(env, "lab:fake")
    for _ in range(2):
        _, _, terminated, truncated, _ = task.step(torch.zeros(2, 2))
    assert terminated.all() and not truncated.any()


def test_the_episode_lengths_are_the_environments_own():
    env = fake_mjlab_env()
    task = TorchEnvTask(env, "lab:fake")
    task.episode_length.copy_(torch.tensor([0, 4]))  # a learner staggers them
    _, _, _, truncated, _ = task.step(torch.zeros(2, 2))
    assert truncated.tolist() == [False, True]
    env.episode_length_buf = torch.tensor([2, 2])  # some set another tensor
    task.step(torch.zeros(2, 2))
    assert task.episode_length is env.episode_length_buf


def test_a_nan_action_never_reaches_the_environment():
    env = fake_isaaclab_env()
    task = TorchEnvTask(env, "lab:fake")
    action = torch.tensor([[float("nan"), 1.0], [0.5, 3.0]])
    _, reward, _, truncated, info = task.step(action)
    assert env.told[0].tolist() == [[0, 0], [0.5, 1]] and reward.tolist() == [0, 0.5]
    assert info["bad"].tolist() == [True, False] == truncated.tolist() and info["valid"].tolist() == [False, True]


def test_without_bounds_actions_are_passed_on_but_an_infinite_one_is_not():
    env = fake_mjlab_env()
    task = TorchEnvTask(env, "lab:fake")
    _, _, _, _, info = task.step(torch.tensor([[0.0, float("inf")], [0.5, 3.0]]))
    assert env.told[0].tolist() == [[0, 0], [0.5, 3]] and info["bad"].tolist() == [True, False]


@pytest.mark.parametrize("make_env", MAKERS)
def test_all_groups_of_observations_are_there(make_env):
    task = TorchEnvTask(make_env(), "lab:fake")
    task.env.obs_buf["critic"][0, 2] = float("nan")
    groups = task.groups
    assert groups["critic"].shape == (2, 7) and groups["critic"].isfinite().all()
    assert torch.equal(groups[task.env.group], task.obs)
    task.step(torch.ones(2, 2))
    assert not torch.equal(groups[task.env.group], task.groups[task.env.group]), "what was given must be a copy"


def test_what_the_environment_logs_is_kept_of_the_last_step():
    task = TorchEnvTask(fake_isaaclab_env(), "lab:fake")
    task.env.extras["log"] = {"Episode_Reward/alive": 0.5}
    assert task.log == {}
    task.step(torch.zeros(2, 2))
    assert task.log == {"Episode_Reward/alive": 0.5}


def test_new_episodes_and_the_end():
    env = fake_isaaclab_env()
    task = TorchEnvTask(env, "lab:fake")
    task.step(torch.ones(2, 2))
    assert task.state_dict() == {}
    task.load_state_dict({})
    assert task.obs[:, 0].tolist() == [0, 0] and task.episode_length.tolist() == [0, 0]
    task.close()
    task.close()
    assert env.is_closed


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Box(-1, 1, (3,)), "supported is a Dict with 'policy' or 'actor'"),
        (spaces.Dict(camera=spaces.Box(-1, 1, (3,))), "supported is a Dict with 'policy' or 'actor'"),
        (FakeDict({"actor": FakeDict({"height": FakeBox((1,))})}), "supported is a Box of numbers"),
        (None, "supported is a Dict"),
    ],
)
def test_other_observations_are_refused(space, message):
    env = fake_isaaclab_env()
    env.single_observation_space = space
    with pytest.raises(UsageError, match=message):
        TorchEnvTask(env, "lab:fake")


def test_a_first_step_that_goes_wrong_leaves_the_observation_before_it():
    env = fake_isaaclab_env()
    task = TorchEnvTask(env, "lab:fake")
    first, step = task.obs.clone(), env.step

    def broken(action):
        observed, *rest = step(action)
        observed["policy"][0] = float("nan")
        return observed, *rest

    env.step = broken
    obs, reward, _, truncated, info = task.step(torch.ones(2, 2))
    assert info["bad"].tolist() == truncated.tolist() == [True, False] and reward[0] == 0
    assert torch.equal(info["final_obs"][0], first[0]) and torch.equal(obs[0], first[0]) and obs.isfinite().all()
