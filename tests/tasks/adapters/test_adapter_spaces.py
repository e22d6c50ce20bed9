from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from toy_spaces import LIMIT, AnySpaces, done_leaf, random_space, seen_leaf

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.run_config import RunConfig, default_config
from gmi_drl.errors import UsageError
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.tasks import check_task
from gmi_drl.tasks.adapters.gymnasium import GymnasiumTask
from gmi_drl.tasks.adapters.spaces import ActionSpace, ObservationSpace
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.observations import parts_of
from gmi_drl.workload.spaces import Action, Observation, Part, categorical, continuous

N, CPU = 3, torch.device("cpu")


def make_task(seen, done, mode=AutoresetMode.SAME_STEP, seed=0):
    return GymnasiumTask(SyncVectorEnv([lambda: AnySpaces(seen, done)] * N, autoreset_mode=mode), seed=seed)


def test_parts_of_nested_spaces_have_their_paths_and_values():
    seen = spaces.Dict(
        camera=spaces.Box(0, 255, (9, 8, 3), np.uint8),
        state=spaces.Tuple([spaces.Box(-1, 1, (2, 2)), spaces.Discrete(3, start=5)]),
        action_mask=spaces.MultiBinary(4),
    )
    space = ObservationSpace("toy", seen)
    assert set(space.observation.parts) == {
        Part("camera", (3, 9, 8), "image"),
        Part("state/0", (4,)),
        Part("state/1", (3,)),
        Part("action_mask", (4,), "mask"),
    }
    pixels = np.random.default_rng(0).integers(0, 256, (N, 9, 8, 3)).astype(np.uint8)
    vectors = np.arange(N * 4, dtype=np.float32).reshape(N, 2, 2)
    nested = {"camera": pixels, "state": (vectors, np.array([5, 7, 6])), "action_mask": np.ones((N, 4), np.int8)}
    parts = parts_of(space.tensor(nested, CPU), space.observation)
    assert np.array_equal(parts["camera"].numpy(), pixels.transpose(0, 3, 1, 2))
    assert parts["state/0"].tolist() == vectors.reshape(N, 4).tolist()
    assert parts["state/1"].argmax(1).tolist() == [0, 2, 1] and parts["action_mask"].all()


def test_rows_of_actions_become_the_simulators():
    done = spaces.Dict(a=spaces.Discrete(3, start=2), b=spaces.Box(0, 1, (2,)), c=spaces.MultiDiscrete([2, 4]))
    space = ActionSpace("toy", done)
    assert space.action == Action(2, (3, 2, 4)) and space.low.tolist() == [0, 0]
    nested = space.nested(torch.tensor([[0.5, 1.0, 2, 1, 3]]))
    assert nested["a"].tolist() == [4] and nested["b"].tolist() == [[0.5, 1]] and nested["c"].tolist() == [[1, 3]]


@pytest.mark.parametrize(("low", "high", "dtype"), [(-1, 1, np.int32), (0, 1, np.bool_), (0, 255, np.uint8)])
def test_boxes_of_whole_numbers_get_the_nearest_ones(low, high, dtype):
    rows = torch.linspace(low, high, 1001)[:, None]
    chosen = ActionSpace("toy", spaces.Box(low, high, (1,), dtype)).nested(rows)
    assert chosen.dtype == dtype and np.array_equal(chosen.astype(np.float32), rows.round().numpy())


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_the_largest_whole_numbers_do_not_turn_around(dtype):
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    space = ActionSpace("toy", spaces.Box(least, most, (1,), dtype))
    low, high = space.nested(torch.stack((space.low, space.high)))[:, 0].tolist()
    assert low == least and most - 2048 < high <= most


def test_choices_of_two_dimensions_have_starts_of_their_own():
    space = ActionSpace("toy", spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [2, 3]]))
    assert space.nested(torch.tensor([[1.0, 2, 3, 4]])).tolist() == [[[1, 3], [5, 7]]]


def test_masks_that_are_not_for_the_choices_are_refused():
    seen = Observation((Part("v", (2,)), Part("action_mask", (4,), "mask")))
    for action in (categorical(5), continuous(2)):
        with pytest.raises(UsageError, match=r"toy: action_mask has 4 entries, the choices of the action have [05]"):
            replace(TASK_SPECS["ant"], name="toy", observation=seen, action=action)
    with pytest.raises(UsageError, match="a mask alone"):
        replace(TASK_SPECS["ant"], observation=Observation(seen.parts[1:]), action=categorical(4))


@pytest.mark.parametrize(
    ("seen", "done", "nothing"),
    [
        (spaces.Box(-1, 1, (0,)), spaces.Discrete(2), "see"),
        (spaces.Dict(), spaces.Discrete(2), "see"),
        (spaces.Discrete(2), spaces.Box(-1, 1, (0,)), "do"),
        (spaces.Discrete(2), spaces.Dict(), "do"),
    ],
)
def test_spaces_without_numbers_are_refused(seen, done, nothing):
    with pytest.raises(UsageError, match=f"is empty.*: there is nothing to {nothing}"):
        make_task(seen, done)


@pytest.mark.parametrize("mask", [spaces.Discrete(2), spaces.Box(0, 1, (), np.int8)])
def test_a_mask_of_one_number_is_refused(mask):
    seen = spaces.Dict(numbers=spaces.Box(-1, 1, (2,)), action_mask=mask)
    with pytest.raises(UsageError, match=r"action_mask is (Discrete|Box)\(.*MultiBinary.*rename it"):
        make_task(seen, spaces.Discrete(2))


@pytest.mark.parametrize("size", [2, 3])
def test_two_parts_of_one_name_are_refused(size):
    seen = spaces.Dict({"a/b": spaces.Box(-1, 1, (2,)), "a": spaces.Dict(b=spaces.Box(-1, 1, (size,)))})
    with pytest.raises(UsageError, match="two parts of the observation are named a/b: rename one of them"):
        make_task(seen, spaces.Discrete(2))


@pytest.mark.parametrize("shape", [(0, 8, 8), (3, 0, 8)])
def test_an_image_without_pixels_is_refused(shape):
    seen = spaces.Dict(numbers=spaces.Box(-1, 1, (2,)), camera=spaces.Box(0, 255, shape, np.uint8))
    with pytest.raises(UsageError, match=r"camera \(image\): .* x 8 uint8: an image without pixels: leave it out"):
        make_task(seen, spaces.Discrete(2))


def test_keys_of_a_dict_may_be_numbers():
    done = spaces.Dict({1: spaces.Discrete(2), 2: spaces.Box(-1, 1, (2,))})
    task = make_task(spaces.Dict({1: spaces.Box(-1, 1, (2,)), 2: spaces.Tuple([spaces.Discrete(2)])}), done)
    for _ in range(LIMIT + 1):
        task.step(torch.zeros(N, task.spec.action.size))
    assert [part.name for part in task.spec.observation.parts] == ["1", "2/0"]


def test_what_is_not_supported_is_named_by_its_path():
    seen = spaces.Dict(inner=spaces.Tuple([spaces.Text(4)]), fine=spaces.Discrete(2))
    with pytest.raises(UsageError, match=r"toy: of its observations inner/0 is Text\(.*supported are Box, Discrete"):
        ObservationSpace("toy", seen)
    with pytest.raises(UsageError, match=r"toy: of its observations policy is OneOf\(.*supported are Box"):
        ObservationSpace("toy", spaces.OneOf([spaces.Discrete(2), spaces.Box(-1, 1, (2,))]))
    with pytest.raises(UsageError, match="of its actions policy is Text"):
        ActionSpace("toy", spaces.Text(3))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_task_of_many_parts_keeps_the_contract(mode):
    seen = spaces.Dict(camera=spaces.Box(0, 255, (4, 6, 6), np.uint8), state=spaces.Box(-1, 1, (3,)))
    done = spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,))])
    task = make_task(seen, done, mode)
    for step in range(1, LIMIT + 1):
        before = task.obs.clone()
        obs, _, terminated, truncated, info = task.step(torch.zeros(N, 3))
        assert truncated.all() == (step == LIMIT) and not terminated.any() and not info["bad"].any()
        assert obs.shape == before.shape == info["final_obs"].shape and not torch.equal(obs, before)
    same = torch.equal(obs, info["final_obs"])
    assert same == (mode is AutoresetMode.NEXT_STEP)


def test_check_task_takes_images_and_categories():
    seen = spaces.Box(0, 255, (4, 6, 6), np.uint8)
    check_task(lambda seed: make_task(spaces.Box(0, 255, (4, 6, 6), np.uint8), spaces.Discrete(3), seed=seed), steps=40)
    assert ObservationSpace("toy", seen).observation.parts == (Part("policy", (4, 6, 6), "image"),)


@pytest.mark.parametrize("number", range(50))
def test_random_nested_spaces_are_learnt_from(number):
    """Each trains three iterations; the environment checks that every action is in its space."""
    rng = np.random.default_rng(number)
    task = make_task(random_space(rng, seen_leaf), random_space(rng, done_leaf))
    small = {"hidden": (8,), "horizon": 5, "minibatches": 2, "epochs": 1}
    if task.spec.observation.of_kind("image"):
        small |= {"features": 8, "conv": ((4, 3, 2),)}
    config = RunConfig(learner=default_config(task.spec).learner.model_copy(update=small))
    replica = PPOReplica(task.spec, config, NoReduction(), sample_share=1.0, device=CPU, seed=0)
    replica.attach_task(task, seed=1)
    for _ in range(3):
        replica.iterate(lambda: Decision.GO_ON)
    assert all(np.isfinite(value) for value in replica.metrics().values()) and task.spec.action != categorical()


@pytest.mark.parametrize(
    ("shape", "channels"),
    [((8, 8, 20), 20), ((4, 84, 84), 4), ((84, 84, 3), 3), ((20, 8, 8), 20), ((210, 160, 3), 3), ((3, 96, 64), 3)],
)
def test_channels_are_beside_two_equal_dimensions_or_the_fewest(shape, channels):
    seen = ObservationSpace("toy", spaces.Box(0, 255, shape, np.uint8))
    assert seen.observation.parts[0].shape[0] == channels
