import pytest

from gmi_drl.errors import UsageError
from gmi_drl.launch.sweep.sweep_file import Sweep, make_trials, read_seeds, read_sweep, read_values, write_sweep


def test_seeds_are_numbers_and_ranges():
    assert read_seeds("0-3, 7") == [0, 1, 2, 3, 7]


@pytest.mark.parametrize("text", ["", "a", "3-1", "0-3,2", "-1", "4294967296", "0-99999"])
def test_other_seeds_are_refused(text):
    with pytest.raises(UsageError, match="--seeds"):
        read_seeds(text)


def test_values_are_split_at_commas_outside_of_brackets():
    settings = ["learner.hidden=[8,8],[4]", "seedless=a"]
    assert read_values(settings) == {"learner.hidden": ["[8,8]", "[4]"], "seedless": ["a"]}


@pytest.mark.parametrize("settings", [["a"], ["=1"], ["a="], ["a=1,,2"], ["a=1,1"], ["a=1", "a=2"]])
def test_other_settings_are_refused(settings):
    with pytest.raises(UsageError, match="--set"):
        read_values(settings)


def test_each_combination_has_all_seeds_and_names_say_what_differs():
    trials = make_trials([0, 1], {"learner.gamma": ["0.9", "0.99"], "tf32": ["true"]})
    assert [trial.name for trial in trials] == [
        "0-gamma=0.9-seed0",
        "1-gamma=0.9-seed1",
        "2-gamma=0.99-seed0",
        "3-gamma=0.99-seed1",
    ]
    assert trials[3].settings == {"learner.gamma": "0.99", "tf32": "true"}
    with pytest.raises(UsageError, match="200 combinations x 100 seeds: at most 10000"):
        make_trials(range(100), {"a": [str(number) for number in range(200)]})


def test_a_sweep_is_read_back_and_other_folders_are_refused(tmp_path):
    sweep = Sweep(arguments=("--task", "ant"), trials=make_trials([0], {}), measured={"1": 2.0})
    write_sweep(tmp_path, sweep)
    assert read_sweep(tmp_path) == sweep
    with pytest.raises(UsageError, match="no folder of a sweep"):
        read_sweep(tmp_path / "other")
