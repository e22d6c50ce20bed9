import sys
from functools import partial

import gymnasium
import numpy as np
import odd_envs
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gmi_drl.config.task_names import with_arguments
from gmi_drl.errors import GmiWarning, MachineError, UsageError
from gmi_drl.tasks import make
from gmi_drl.tasks.adapters.gymnasium import GymnasiumTask, reward_scale_of
from gmi_drl.tasks.finite import LARGEST
from gmi_drl.workload import TASK_SPECS, UNLIMITED_STEPS
from gmi_drl.workload.spaces import continuous, vector

N = 3


def pendulums(mode, name="InvertedPendulum-v5", steps=7):
    """Inverted pendulums fall within a few steps of noise; seven are the time limit."""
    worlds = [partial(gymnasium.make, name, max_episode_steps=steps)] * N
    return GymnasiumTask(SyncVectorEnv(worlds, autoreset_mode=mode), seed=3)


def transitions(task, count=30):
    """Of each world, what was seen, done and followed, as lists of the same length; the actions are the same."""
    generators = [torch.Generator().manual_seed(world) for world in range(N)]
    of = [[] for _ in range(N)]
    action = [2 * torch.rand(count, task.spec.action.size, generator=generator) - 1 for generator in generators]
    while min(len(found) for found in of) < count:
        told = torch.stack([action[world][min(len(of[world]), count - 1)] for world in range(N)])
        before = task.obs.clone()
        obs, reward, terminated, truncated, info = task.step(told)
        assert torch.equal(obs, task.obs) and not (terminated & truncated).any()
        ended = terminated | truncated
        assert torch.equal(obs[~ended], info["final_obs"][~ended]) and (task.episode_length[ended] == 0).all()
        for world in range(N):
            if info["valid"][world]:
                rest = reward[world], terminated[world], truncated[world]
                of[world].append((*before[world].tolist(), *map(float, rest), *info["final_obs"][world].tolist()))
    return torch.tensor([found[:count] for found in of])


def test_all_autoreset_modes_give_the_same_transitions():
    same, following, by_hand = (transitions(pendulums(mode)) for mode in AutoresetMode)
    torch.testing.assert_close(same, following, rtol=0, atol=0)
    torch.testing.assert_close(same, by_hand, rtol=0, atol=0)
    terminated, truncated = same[:, :, 5].sum(), same[:, :, 6].sum()
    assert terminated > 0 and truncated > 0


def test_a_step_that_begins_an_episode_is_no_transition():
    task = pendulums(AutoresetMode.NEXT_STEP, steps=2)
    for valid in (True, True, False, True, True, False):
        _, reward, terminated, truncated, info = task.step(torch.zeros(N, 1))
        assert info["valid"].tolist() == [valid] * N and not info["bad"].any() and not terminated.any()
        assert valid or (truncated.all() and reward.abs().max() == 0)


def test_a_reset_forgets_that_episodes_had_ended():
    task = pendulums(AutoresetMode.NEXT_STEP, steps=1)
    assert task.step(torch.zeros(N, 1))[3].all()
    task.reset()
    assert task.step(torch.zeros(N, 1))[4]["valid"].all()


def test_sizes_and_limits_are_those_of_the_environment():
    task = make(name := "gymnasium:HalfCheetah-v5", num_env=2, seed=2**32 - 1)
    spec = task.spec
    assert (spec.name, spec.alias, spec.observation, spec.action) == (*[name] * 2, vector(17), continuous(6))
    assert (spec.episode_steps, spec.step_s, spec.hidden) == (1000, pytest.approx(0.05), (256, 128, 64))
    assert task.obs.shape == (2, 17) and task.obs.dtype == torch.float32 and not torch.equal(*task.obs)
    task.close()
    task.close()


@pytest.mark.parametrize(
    ("name", "scale"), [("HalfCheetah-v5", 0.05), ("Ant-v5", 0.05), ("AntMaze-v1", 1), ("Pendulum-v1", 1)]
)
def test_runners_have_the_scale_of_rewards_of_our_ant(name, scale):
    assert reward_scale_of(name) == scale and TASK_SPECS["ant"].reward_scale == 0.05


def test_the_seed_decides():
    first, second, third = (make("gymnasium:Pendulum-v1", num_env=2, seed=seed).obs for seed in (1, 1, 2))
    assert torch.equal(first, second) and not torch.equal(first, third)


class Recorder(gymnasium.Env):
    """Remembers what it was told; observes images, and NaN in its second step of an episode where asked to."""

    observation_space = spaces.Box(-1, 1, (2, 3), np.float64)
    told: np.ndarray

    def __init__(self, low=-1.0, high=1.0, is_faulty=False, dtype=np.float32):
        self.action_space = spaces.Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype)
        self.is_faulty, self.steps = is_faulty, 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros((2, 3)), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.told = action
        self.steps += 1
        obs = np.full((2, 3), np.nan if self.is_faulty and self.steps == 2 else self.steps / 10)
        return obs, 1.0, False, self.steps == 4, {}


def recorders(mode=AutoresetMode.SAME_STEP, faulty=(False,), **bounds):
    worlds = [partial(Recorder, is_faulty=is_faulty, **bounds) for is_faulty in faulty]
    return GymnasiumTask(SyncVectorEnv(worlds, autoreset_mode=mode))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_actions_are_scaled_to_finite_bounds_and_passed_on_elsewhere(dtype):
    low, high = [-0.1, 0.0, -np.inf, -np.inf, -odd_envs.MAX], [0.3, 4.0, np.inf, 0.5, odd_envs.MAX]
    task = recorders(low=low, high=high, dtype=dtype)
    for action, expected in [
        ([-1, -1, -1, -1, -1], [-0.1, 0, -1, -1, -1]),
        ([1, 1, 1, 1, 1], [0.3, 4, 1, 0.5, 1]),
        ([0, 0.5, 0.25, 0, 7], [0.1, 3, 0.25, 0, 7]),
        ([9, -9, 9, -9, 9], [0.3, 0, 9, -9, 9]),
    ]:
        task.step(torch.tensor([action], dtype=torch.float32))
        told = task.envs.envs[0].told
        assert told.dtype == dtype and told == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_an_environment_with_nan_is_bad_and_others_go_on(mode):
    task = recorders(mode, faulty=(False, True), low=[-1.0], high=[1.0])
    task.step(torch.zeros(2, 1))
    obs, reward, terminated, truncated, info = task.step(torch.zeros(2, 1))
    assert info["bad"].tolist() == [False, True] == truncated.tolist() and not terminated.any()
    assert info["valid"].tolist() == [True, False] and reward.tolist() == [1, 0]
    assert obs.isfinite().all() and info["final_obs"][1].tolist() == pytest.approx([0.1] * 6)
    for _ in range(4):
        obs, reward, _, _, info = task.step(torch.zeros(2, 1))
        assert obs.isfinite().all() and reward.isfinite().all() and not (info["bad"][0])


def odd(name, num_env=2, seed=0):
    return make(f"gymnasium:odd_envs:{name}-v0", num_env=num_env, seed=seed)


def steps_of(task, count):
    """Observations, rewards, who is bad and who is valid, of each step."""
    found = []
    for _ in range(count):
        obs, reward, _, _, info = task.step(torch.zeros(task.num_env, 2))
        found.append((obs.clone(), reward.tolist(), info["bad"].tolist(), info["valid"].tolist()))
        assert obs.isfinite().all() and info["final_obs"].isfinite().all()
    return found


def test_a_first_observation_without_numbers_is_zero_and_its_episode_is_left_out():
    with pytest.warns(GmiWarning, match="environment 1, observation 1: inf in its first observation") as told:
        task = odd("InfFirst")
        assert task.obs[1].tolist() == [0, 0, 0] and task.obs[0, 1] > 0
        steps = steps_of(task, 6)
    assert [valid for *_, valid in steps] == 4 * [[True, False]] + 2 * [[True, True]]
    assert [bad for *_, bad, _ in steps] == [[False, True]] + 5 * [[False, False]], "an accident is told once"
    assert [reward for _, reward, *_ in steps] == 4 * [[1, 0]] + 2 * [[1, 1]]
    assert steps[0][0][1, 0] == 1, "once it shows numbers, they are seen"
    assert len(told) == 1


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("kind", [odd_envs.NanLater, odd_envs.NanReward])
def test_a_failed_environment_is_left_out_until_its_next_episode(mode, kind):
    task = GymnasiumTask(SyncVectorEnv([kind], autoreset_mode=mode))
    with pytest.warns(GmiWarning, match="in step 2"):
        steps = steps_of(task, 6)
    valid, bad = ([told[index][0] for told in steps] for index in (3, 2))
    expected = {"SameStep": [1, 0, 0, 0, 1, 0], "NextStep": [1, 0, 0, 0, 0, 1], "Disabled": [1, 0, 1, 0, 1, 0]}
    assert valid == [bool(flag) for flag in expected[mode.value]], "where it is ours to say, the next begins at once"
    once = {"SameStep": [2, 6], "NextStep": [2], "Disabled": [2, 4, 6]}
    assert [step for step, is_bad in enumerate(bad, 1) if is_bad] == once[mode.value], "an accident is told once"


def test_after_a_reset_no_environment_is_bad():
    with pytest.warns(GmiWarning):
        task = odd("InfFirst")
        task.reset()
    assert [valid for *_, valid in steps_of(task, 2)] == [[True, True]] * 2


def test_large_numbers_are_clamped_and_no_accident():
    with pytest.warns(
        GmiWarning, match=r"environment 0, observation 1: 3.40282e\+38 in its first observation was clamped to 1e"
    ):
        task = odd("NoReading")
    for obs, reward, bad, valid in steps_of(task, 5):
        assert obs[:, 1:].tolist() == [[LARGEST] * 2] * 2 and reward == [1, 1] and valid == [True] * 2 and not any(bad)
    with pytest.warns(GmiWarning, match=r"environment 0, reward: -3.40282e\+38 in step 1 was clamped to 1e"):
        assert steps_of(odd("HugeReward"), 1)[0][1] == [-LARGEST] * 2


def test_observations_of_any_shape_are_flat():
    assert recorders(low=[-1.0], high=[1.0]).obs.shape == (1, 6)


MODULE = """
import gymnasium
class Point(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Box(-1, 1, ())
    def reset(self, *, seed=None, options=None):
        return self.observation_space.high, {}
    def step(self, action):
        return action, 0.0, False, False, {}
gymnasium.register("Point-v0", Point)
"""


def test_an_environment_of_ones_own_lies_in_a_folder_of_the_path(tmp_path, monkeypatch):
    (tmp_path / "my_point.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    task = make("gymnasium:my_point:Point-v0", num_env=2)
    assert task.obs.tolist() == [[1], [1]] and task.spec.name == "gymnasium:my_point:Point-v0"
    assert (task.spec.observation.size, task.spec.episode_steps, task.spec.step_s) == (1, UNLIMITED_STEPS, 0)
    assert task.step(torch.tensor([[0.5], [-0.5]]))[0].tolist() == [[0.5], [-0.5]]


def test_the_constructor_is_given_what_it_wants():
    name = with_arguments("gymnasium:odd_envs:Furnished-v0", ["urdf_path=a.urdf", "size=2.5"])
    task = make(name, num_env=2)
    assert task.spec.name == name and task.obs.tolist() == [[6, 2.5, 0]] * 2


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (
            [],
            "missing 1 required positional argument: 'urdf_path'.*; give the missing arguments: --env-arg urdf_path=V",
        ),
        (
            ["urdf_path=a", "sise=1"],
            "unexpected keyword argument 'sise'.*; leave that --env-arg out; its arguments were --env-arg sise=1 ",
        ),
        (["urdf_path=a", "id=2"], r"make\(\) got multiple values for argument 'id'; leave that --env-arg out;"),
    ],
)
def test_missing_and_unknown_arguments_of_a_constructor_are_reported(given, remedy):
    with pytest.raises(UsageError, match=remedy):
        make(with_arguments("gymnasium:odd_envs:Furnished-v0", given), num_env=1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("render_mode=3", "cannot be made: AttributeError: 'int' object has no attribute 'endswith' "),
        ("frame_skip=some", "cannot be made: TypeError: can't multiply sequence"),
        ("reset_noise_scale=some", "environment 0 .*, reset: TypeError: bad operand type for unary -: 'str'"),
    ],
)
def test_arguments_that_an_environment_refuses_are_reported_with_its_error(given, said):
    name, _, value = given.partition("=")
    told = rf'^gymnasium:HalfCheetah-v5:? {said}.*; its arguments were --env-arg {name}="?{value}"?$'
    with pytest.raises(UsageError, match=told):
        make(with_arguments("gymnasium:HalfCheetah-v5", [given]), num_env=1)


def test_arguments_for_an_adapter_without_any_are_refused():
    with pytest.raises(UsageError, match="tasks of mjlab take no arguments: leave --env-arg out"):
        make(with_arguments("mjlab:X", ["size=1"]), num_env=1)


def test_an_id_with_only_a_vector_entry_point_is_made_by_that():
    task = make(with_arguments("gymnasium:odd_envs:Vectors-v0", ["size=3"]), num_env=2)
    assert task.obs.tolist() == [[3] * 3] * 2 and task.step(torch.zeros(2, 2))[1].tolist() == [1, 1]


def test_the_number_of_environments_is_no_argument_of_an_entry():
    with pytest.raises(
        UsageError, match=r"'num_envs'; leave that --env-arg out; its arguments were --env-arg num_envs=3$"
    ):
        make(with_arguments("gymnasium:odd_envs:Vectors-v0", ["num_envs=3"]), num_env=2)


def test_the_default_type_of_an_environment_is_its_own():
    task = make("gymnasium:odd_envs:Double-v0", num_env=2)
    assert torch.get_default_dtype() == torch.float32
    task.step(torch.zeros(2, 2))
    assert task.reset().dtype == torch.get_default_dtype() == torch.float32


def test_a_module_that_is_found_but_fails_to_import_is_reported(tmp_path, monkeypatch):
    (tmp_path / "lacks_a_package.py").write_text("import os\nimport no_such_package\n")
    (tmp_path / "lacks_a_library.py").write_text("raise OSError('libGL.so.1: cannot open')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for module, words in [
        ("lacks_a_package", "ModuleNotFoundError: No module named 'no_such_package' .*lacks_a_package.py, line 2"),
        ("lacks_a_library", "OSError: libGL.so.1: cannot open .*lacks_a_library.py, line 1"),
    ]:
        with pytest.raises(MachineError, match=f"the module {module} is installed but cannot be imported: {words}"):
            make(f"gymnasium:{module}:X-v0", num_env=1)
    with pytest.raises(
        MachineError, match=r"the module nowhere.at_all is not installed .*: install it, or name the folder of nowhere"
    ):
        make("gymnasium:nowhere.at_all:X-v0", num_env=1)


def test_a_spec_has_the_bounds_of_actions():
    task = recorders(low=[-1.0, -1.0, 0.0, -odd_envs.MAX], high=[1.0, 1.0, np.inf, odd_envs.MAX])
    assert task.spec.action_bounds == "2 x [-1, 1], 1 x [0, inf], 1 x [-inf, inf]"


def test_an_action_of_another_shape_is_refused():
    with pytest.raises(UsageError, match=r"shape \(3,\), but gymnasium takes \(1, 1\)"):
        recorders(low=[-1.0], high=[1.0]).step(torch.zeros(3))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gymnasium:HalfCheeta-v5", "did you mean 'HalfCheetah-v5'"),
        ("gymnasium:odd_envs:Composed-v0", r"of its observations words is Text.*supported are Box, Discrete"),
    ],
)
def test_what_cannot_be_trained_is_refused(name, message):
    with pytest.raises(UsageError, match=message):
        make(name, num_env=1)


def test_zero_environments_are_refused():
    with pytest.raises(UsageError, match="num_env is 0"):
        make("gymnasium:Pendulum-v1", num_env=0)


def test_robots_without_mujoco_name_the_package(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("gymnasium.envs.mujoco")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(MachineError, match=r"pip install 'gmi-drl\[gymnasium\]'"):
        make("gymnasium:HalfCheetah-v5", num_env=1)


def test_an_environment_that_does_not_say_how_it_resets_is_refused():
    envs = SyncVectorEnv([partial(Recorder, low=[-1.0], high=[1.0])])
    envs.metadata = {}
    with pytest.raises(UsageError, match=r"metadata\['autoreset_mode'\] is None"):
        GymnasiumTask(envs)
