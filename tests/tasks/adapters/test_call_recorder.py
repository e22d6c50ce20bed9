"""Environments that fail or return another form than gymnasium's are named, with the step and the returned value."""

import json
import re

import pytest
import torch

from gmi_drl.errors import GmiError
from gmi_drl.tasks import make

ODD = "gymnasium:odd_envs"
AT_RESET, AT_STEP = r"environment 0 \(odd_envs.{}\), reset: ", r"environment 0 \(odd_envs.{}\), step 1: "
FORMS = {
    "NoReward": AT_STEP + r"its reward is None, not a number; it returned \(array.*, None, False, False, {{}}\)",
    "RewardArray": AT_STEP + r"its reward is array\(\[1\.\]\), not a number: let it return reward.item\(\)",
    "OldReset": AT_RESET + r"it returned a value of type ndarray, not \(observation, info\): .* gym before 0.26",
    "OldStep": AT_STEP + r"it returned 4 values, not \(observation, reward, terminated, truncated, info\): .* 0.26",
    "OtherShape": AT_RESET + r"its observation has the shape \(4,\), its observation_space \(3,\)",
    "NoEnd": AT_STEP + "its terminated is None, not True or False",
}


def play(name, steps):
    task = make(f"{ODD}:{name}-v0", num_env=2)
    for _ in range(steps):
        task.step(torch.zeros(2, 2))
    return task


@pytest.mark.parametrize("name", FORMS)
def test_what_has_another_form_is_named(name):
    with pytest.raises(GmiError, match=f"^{ODD}:{name}-v0: {FORMS[name].format(name)}"):
        play(name, 1)


def test_an_error_names_one_environment_and_place():
    where = r"environment 1 \(odd_envs.Failing\), step 3"
    error = r"ZeroDivisionError: division by zero \(/.*/odd_envs.py, line \d+\)$"
    with pytest.raises(GmiError, match=f"^{ODD}:Failing-v0: {where}: {error}"):
        play("Failing", 3)


def test_after_an_error_the_next_calls_are_recorded():
    task = play("Failing", 2)
    for step in 3, 4:
        with pytest.raises(GmiError, match=rf"environment 1 \(odd_envs.Failing\), step {step}: ZeroDivisionError"):
            task.step(torch.zeros(2, 2))


@pytest.mark.parametrize(
    ("place", "at", "is_last", "mistake"),
    [
        (1, 3, False, "its reward is None"),
        (2, 3, False, "its terminated is None"),
        (3, 3, False, "its truncated is None"),
        (1, 1, True, "its reward is None"),
    ],
)
def test_none_in_one_step_only_is_named(place, at, is_last, mistake):
    arguments = json.dumps({"place": place, "at": at, "is_last": is_last})
    task = make(f"{ODD}:Sometimes-v0{arguments}", num_env=2)
    for _ in range(at - 1):
        task.step(torch.zeros(2, 2))
    with pytest.raises(GmiError, match=rf": environment 0 \(odd_envs.Sometimes\), step {at}: {mistake}"):
        task.step(torch.zeros(2, 2))


@pytest.mark.parametrize("name", ["Even", "Settled", "Restarting", "Mended"])
def test_correct_environments_are_not_named(name):
    assert re.fullmatch(f"{ODD}:{name}-v0", play(name, 6).spec.name)
