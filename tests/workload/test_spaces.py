import json

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.workload import TASK_SPECS, TaskSpec, spec_of
from gmi_drl.workload.observations import dtype_of, pack, parts_of
from gmi_drl.workload.spaces import (
    Action,
    Observation,
    Part,
    action_of,
    categorical,
    continuous,
    difference,
    group_kinds,
    image,
    observation_of,
    to_json,
    vector,
)

MANY = Observation(
    (Part("joints", (5,)), Part("camera", (3, 4, 4), "image"), Part("goal", (2,)), Part("allowed", (7,), "mask"))
)
TWO = Observation((Part("a", (3,)), Part("b", (4,))))


def test_a_vector_alone_is_laid_out_as_ever():
    one = vector(60)
    assert (one.shape, one.dtype, one.nbytes, one.vector_size) == ((60,), "float32", 240, 60)
    assert one.is_vector and not one.is_packed


def test_vectors_together_are_one_vector_and_other_kinds_a_row_of_bytes():
    assert (TWO.shape, TWO.dtype, TWO.is_vector) == ((7,), "float32", True)
    assert image(3, 8, 8).shape == (3, 8, 8) and image(3, 8, 8).nbytes == 192
    assert MANY.is_packed and MANY.shape == (4 * 5 + 48 + 4 * 2 + 8,) and MANY.vector_size == 7


@pytest.mark.parametrize("observation", [vector(4), image(2, 3, 3), MANY, TWO], ids=str)
def test_packed_parts_come_back_and_are_views(observation):
    generator = torch.Generator().manual_seed(0)
    given = {
        part.name: torch.randn(6, *part.shape, generator=generator)
        if part.kind == "vector"
        else torch.randint(0, 256, (6, *part.shape), dtype=torch.uint8, generator=generator)
        for part in observation.parts
    }
    row = pack(given, observation)
    assert row.shape == (6, *observation.shape) and row.dtype == dtype_of(observation)
    found = parts_of(row.view(2, 3, *observation.shape), observation)
    for name, part in given.items():
        assert torch.equal(found[name].flatten(0, 1), part)
        found[name].zero_()
    assert not parts_of(row, observation)[observation.parts[0].name].any()


def test_spaces_and_sizes_survive_json():
    for observation in (vector(3), image(1, 5, 5), MANY):
        assert observation_of(json.loads(json.dumps(to_json(observation)))) == observation
    for action in (continuous(2), categorical(3), categorical(2, 5), Action(2, (3,))):
        assert action_of(json.loads(json.dumps(to_json(action)))) == action
    for spec in TASK_SPECS.values():
        assert spec_of(json.loads(json.dumps(spec.to_json()))) == spec


def test_sizes_of_actions():
    mixed = Action(2, (3, 4))
    assert (mixed.size, mixed.params, mixed.nbytes) == (4, 9, 16)
    assert str(mixed) == "2 numbers and one of 3, of 4" and str(categorical(6)) == "one of 6"


def test_a_difference_names_the_parts():
    assert not difference(MANY, MANY)
    assert difference(vector(3), vector(4)) == "policy (vector): 3 numbers, now policy (vector): 4 numbers"
    assert difference(MANY, Observation(MANY.parts[:-1])) == "allowed (mask): 7 uint8, now no allowed"
    assert difference(MANY, Observation(MANY.parts[::-1])) == "its parts have another order"


def test_numbers_in_place_of_spaces_are_refused_with_the_spaces():
    with pytest.raises(UsageError, match=r"observation=vector\(5\), action=continuous\(2\)"):
        TaskSpec("old", "OL", 5, 2, (8,), 100, 0.1)


def test_rsl_rl_gets_no_group_that_mixes_in_what_the_critic_alone_sees():
    state = Part("state", (5,), critic_alone=True)
    assert group_kinds(Observation((Part("policy", (3,)), state))) == {"policy": "vector", "state": "vector"}
    assert group_kinds(Observation((Part("a", (3,)), state))) == {"a": "vector", "state": "vector"}
    assert group_kinds(Observation((Part("a", (3,)), Part("b", (2,))))).keys() == {"policy", "a", "b"}
