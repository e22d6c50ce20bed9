"""Isaac Gym cannot be had here: the bridge runs for real, in a process of its own, over fake_isaacgymenvs."""

import importlib.util
import os
import signal
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import open_descriptors

from gmi_drl.config.task_names import SIMULATOR_PYTHON
from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.run.folder import RunFolder
from gmi_drl.tasks.adapters import isaacgym
from gmi_drl.tasks.adapters.isaacgym import make_task
from gmi_drl.tasks.adapters.isaacgym_process import STEP_S
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.spaces import continuous, vector

FAKE = Path(__file__).parent / "fake_isaacgymenvs"
N = 4


def load_fake_tasks():
    spec = importlib.util.spec_from_file_location("fake_tasks", FAKE / "isaacgymenvs" / "fake_tasks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fake_tasks = load_fake_tasks()


def start():
    """A task over the fake; this interpreter stands for the simulator's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SIMULATOR_PYTHON, sys.executable)
        patch.setenv("PYTHONPATH", str(FAKE))
        return make_task("FakeTask", num_env=N)


@pytest.fixture(scope="module")
def shared():
    task = start()
    yield task
    task.close()


@pytest.fixture
def task(shared):
    """Freshly reset; starting a process of its own for each test would take seconds."""
    shared.reset()
    return shared


def actions(steps):
    return torch.rand(steps, N, 3, generator=torch.Generator().manual_seed(0)) * 1.2 - 0.3


def world(*indices):
    mask = torch.zeros(N, dtype=torch.bool)
    mask[list(indices)] = True
    return mask


def test_a_rollout_is_that_of_the_simulator_and_its_resets_are_no_transitions(task):
    direct = fake_tasks.FakeTask(N)
    direct.episodes += task.obs[:, 4] - 1
    assert torch.equal(task.obs, direct.step(direct.zero_actions())[0]["obs"])
    ended, length, kept, falls, time_outs = world(), torch.zeros(N, dtype=torch.int64), [], 0, 0
    for action in actions(40):
        obs, reward, terminated, truncated, info = task.step(action)
        expected, expected_reward, done, extras = direct.step(action)
        assert torch.equal(obs, expected["obs"]) and torch.equal(info["final_obs"], obs) and task.obs is obs
        assert torch.equal(reward, expected_reward.masked_fill(ended, 0))
        assert torch.equal(info["valid"], ~ended) and not info["bad"].any()
        done, timed_out = done.bool(), extras["time_outs"]
        assert torch.equal(terminated, done & ~timed_out & ~ended) and torch.equal(truncated, timed_out | ended)
        length = torch.where(done | ended, 0, length + 1)
        assert torch.equal(task.episode_length, length)
        falls, time_outs = falls + terminated.sum(), time_outs + (truncated & ~ended).sum()
        ended = done.clone()
        kept.append((obs, expected["obs"].clone()))
    assert min(falls, time_outs) >= N, "the rollout must pass through falls and time limits"
    assert all(torch.equal(obs, then) for obs, then in kept), "what a step returned must not change"


def test_the_spec_has_the_simulators_sizes(task):
    assert (task.spec.name, task.spec.observation.size, task.spec.action.size) == ("isaacgym:FakeTask", 5, 3)
    assert (task.spec.episode_steps, task.spec.step_s) == (8, pytest.approx(0.02))
    assert (task.spec.hidden, task.spec.reward_scale) == ((256, 128, 64), 1.0)
    assert task.spec.action_bounds == "3 x [-1, 1]"
    with pytest.raises(UsageError, match=r"\(4, 2\).*\(4, 3\)"):
        task.step(torch.zeros(N, 2))


@pytest.mark.parametrize(("name", "own"), [("Ant", "ant"), ("ShadowHand", "shadow_hand")])
def test_a_task_that_we_have_too_differs_only_in_the_simulators_sizes(name, own):
    told = {"episode_steps": 77, "step_s": 0.5}
    hello = {
        "sizes": {"num_env": 1, "num_obs": 7, "num_actions": 2},
        "low": [-1.0] * 2,
        "high": [1.0, 3.0],
        "clip": 2.0,
    }
    spec = isaacgym.spec_of(name, hello | told)
    named = {"name": f"isaacgym:{name}", "alias": f"isaacgym:{name}"}
    bounds = {"action_bounds": "1 x [-1, 1], 1 x [-1, 2]"}
    assert spec == replace(TASK_SPECS[own], **named, observation=vector(7), action=continuous(2), **bounds, **told)


def test_actions_are_scaled_to_the_bounds_of_the_task_and_a_run_whose_bounds_have_changed_is_refused(
    shared, monkeypatch, tmp_path
):
    run = RunFolder(tmp_path)
    run.write_task(shared.spec)
    run.require_task(shared.spec)
    monkeypatch.setenv("FAKE_HIGH", "4")
    with closing(start()) as task:
        obs, *_ = task.step(torch.full((N, 3), 0.5))
        assert obs[:, :3].tolist() == [[0.5, 0.5, 2.75]] * N
        with pytest.raises(UsageError, match=r"bounds of actions: 3 x \[-1, 1\], now 2 x \[-1, 1\], 1 x \[-1, 2.5\]"):
            run.require_task(task.spec)


def test_reset_and_an_empty_state_begin_new_episodes(task):
    episode = task.obs[:, 4]
    for action in actions(3):
        task.step(action)
    assert not task.reset()[:, :3].any() and torch.equal(task.obs[:, 4], episode + 1)
    task.step(actions(1)[0])
    assert task.state_dict() == {} and task.episode_length.tolist() == [1] * N
    task.load_state_dict({})
    assert torch.equal(task.obs[:, 4], episode + 2) and not task.episode_length.any()
    assert task.step(torch.zeros(N, 3))[4]["valid"].all()
    with pytest.raises(UsageError, match="can load no state, but one was given: qpos"):
        task.load_state_dict({"qpos": torch.zeros(N)})


@pytest.mark.parametrize("index", [1, 2])
def test_a_broken_environment_is_bad_once_then_begins_anew_alone(task, index):
    before = task.step(torch.zeros(N, 3))[0]
    action = torch.zeros(N, 3)
    action[index, 0] = 7 * fake_tasks.BLOW_UP  # clamped
    obs, reward, terminated, truncated, info = task.step(action)
    only = world(index)
    assert torch.equal(info["bad"], only) and torch.equal(truncated, only) and not terminated.any()
    assert torch.equal(~info["valid"], only) and reward[index] == 0 and torch.equal(obs[index], before[index])
    _, reward, _, truncated, info = task.step(torch.zeros(N, 3))
    assert not info["bad"].any() and torch.equal(truncated, only) and torch.equal(~info["valid"], only)
    obs, _, _, truncated, info = task.step(torch.full((N, 3), 0.25))
    assert info["valid"].all() and not truncated.any() and obs[index, :3].tolist() == [0.25] * 3
    assert torch.equal(obs[:, 4] > before[:, 4], only)


def test_an_action_that_is_nan_is_an_accident_of_which_the_simulator_does_not_know(task):
    before = task.step(torch.full((N, 3), 0.25))[0]
    action = torch.full((N, 3), 0.25)
    action[1, 0] = float("nan")
    obs, reward, terminated, truncated, info = task.step(action)
    assert (
        all(torch.equal(flag, world(1)) for flag in (info["bad"], ~info["valid"], truncated)) and not terminated.any()
    )
    assert reward[1] == 0 and torch.equal(info["final_obs"][1], before[1]) and obs[1, :3].tolist() == [0.25] * 3
    obs, _, _, truncated, info = task.step(torch.full((N, 3), 0.25))
    assert info["valid"].all() and not truncated.any() and obs[:, 0].tolist() == [0.75, 0.5, 0.75, 0.75]


def test_an_error_of_the_simulator_shows_its_last_output_and_leaves_nothing():
    before = open_descriptors()
    task = start()
    assert open_descriptors() > before
    with pytest.raises(GmiError, match=r"(?s)failed: RuntimeError: the physics gave up.*\| PhysX: out of patience"):
        task.step(torch.full((N, 3), fake_tasks.FAIL))
    assert task._process._process.returncode == 1
    task.close()
    task.close()
    assert open_descriptors() == before


def test_a_killed_bridge_is_named_at_once_and_in_every_later_request():
    task = start()
    pid = task._process._process.pid
    os.kill(pid, signal.SIGKILL)
    started = time.monotonic()
    with pytest.raises(GmiError, match=rf"process {pid}, .*was killed by signal 9"):
        task.step(torch.zeros(N, 3))
    assert time.monotonic() - started < STEP_S, "it was noticed by its death, not by its silence"
    for ask_again in (task.reset, lambda: task.step(torch.zeros(N, 3))):
        with pytest.raises(GmiError, match=rf"process {pid}, .*was killed by signal 9"):
            ask_again()
    task.close()


@pytest.mark.parametrize(
    ("named", "message"),
    [("", "--simulator-python PATH"), ("/nowhere/python", "/nowhere/python, which is not"), ("/etc", "/etc")],
)
def test_a_missing_interpreter_is_refused_with_the_remedy(monkeypatch, named, message):
    monkeypatch.setenv(SIMULATOR_PYTHON, named)
    with pytest.raises(MachineError, match=message):
        make_task("FakeTask", num_env=2)


def test_the_option_names_the_interpreter(monkeypatch, command_line):
    monkeypatch.setenv(SIMULATOR_PYTHON, "other")
    named = ("--task", "isaacgym:FakeTask", "--simulator-python", sys.executable)
    _, _, err = command_line("plan", *named, "--node", "nowhere.yaml")
    assert "nowhere.yaml: no such file" in err
    assert os.environ[SIMULATOR_PYTHON] == sys.executable
    assert command_line("train", "--simulator-python", "/nowhere/python")[0] == 2
