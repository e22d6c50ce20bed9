"""Searching by Optuna, with small programs in place of trainings."""

import os
import sys
from pathlib import Path
from signal import Signals

import pytest

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.launch.signals import Stage, StopRequest
from gmi_drl.launch.sweep import search, trial_process
from gmi_drl.launch.sweep.queue import Queue
from gmi_drl.launch.sweep.search import extremes, read_ranges, with_next
from gmi_drl.launch.sweep.slots import make_slots
from gmi_drl.launch.sweep.sweep_file import Range, Search, Sweep, read_sweep, write_sweep
from gmi_drl.launch.sweep.table import Line, results


def test_ranges_and_choices_are_read():
    assert read_ranges(["a=1e-4..1e-2:log", "b=2..8", "c = x, y", "d=-1..0.5"]) == {
        "a": Range(low=1e-4, high=1e-2, log=True),
        "b": Range(low=2, high=8, is_whole=True),
        "c": Range(choices=("x", "y")),
        "d": Range(low=-1, high=0.5),
    }
    assert read_ranges(["b=-2..8"]) == {"b": Range(low=-2, high=8, is_whole=True)}
    assert extremes(read_ranges(["b=2..8", "c=x,y,z"])) == [{"b": "2", "c": "x"}, {"b": "8", "c": "z"}]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a"], "expected KEY=LOW..HIGH"),
        (["a="], "expected KEY=LOW..HIGH"),
        (["a=1..2", "a=1..3"], "the key is given twice"),
        (["a=1..x"], "expected two numbers"),
        (["a=2..2"], "the first number has to be less"),
        (["a=0..1:log"], "a logarithmic range begins above 0"),
        (["a=x,x"], "a value is given twice"),
        (["a=1..1e400"], "have to be finite"),
    ],
)
def test_wrong_ranges_are_refused(texts, message):
    with pytest.raises(UsageError, match=message):
        read_ranges(texts)


def searching(combinations=8, seeds=(0,), **ranges):
    ranges = ranges or {"rate": Range(low=1, high=9)}
    return Sweep(trials=(), at_once=2, search=Search(ranges=ranges, fixed={}, seeds=seeds, combinations=combinations))


def rates(sweep):
    return [float(trial.settings["rate"]) for trial in sweep.trials]


def line(rate, value=None, **counts):
    returns = {} if value is None else {0: value}
    facts = {"done": len(returns), "early": 0, "failed": 0, "early_returns": {}, "total": 1, "best": None} | counts
    return Line(settings={"rate": str(rate)}, returns=returns, **facts)


def test_what_was_good_is_tried_again_near_by(monkeypatch):
    # 30 combinations, the best near 5: suggestions of many studies are nearer to it than evenly drawn ones.
    lines = [line(rate := 1 + 8 * number / 30, -((rate - 5) ** 2)) for number in range(30)]
    near = [abs(float(search._suggest(searching(), lines + [line(9, -16)] * more)["rate"]) - 5) for more in range(12)]
    assert sorted(near)[6] < 1, "half of the range is further away than 2"


def test_what_runs_and_what_has_failed_have_no_return():
    from optuna.trial import TrialState

    assert search._state(line(1)) == {"state": TrialState.RUNNING}
    assert search._state(line(1, failed=1)) == {"state": TrialState.FAIL}
    assert search._state(line(1, 3.0)) == {"state": TrialState.COMPLETE, "value": 3.0}
    assert search._state(line(1, early=1, early_returns={0: 2.0})) == {"state": TrialState.COMPLETE, "value": 2.0}


def test_the_same_ends_give_the_same_next_combination(tmp_path):
    first = with_next(tmp_path, searching(seeds=(3, 4)))
    assert [trial.name for trial in first.trials] == ["00-seed3", "01-seed4"] and len(set(rates(first))) == 1
    second = with_next(tmp_path, first)
    assert second == with_next(tmp_path, first) and rates(second)[2] != rates(second)[0]


def test_whole_numbers_and_choices_are_settings_as_set_takes_them(tmp_path):
    made = searching(layers=Range(low=2, high=8, is_whole=True), name=Range(choices=("relu", "elu")))
    for _ in range(4):
        made = with_next(tmp_path, made)
    assert all(trial.settings["layers"].isdecimal() for trial in made.trials)
    assert {trial.settings["name"] for trial in made.trials} <= {"relu", "elu"}


def test_no_combination_is_tried_twice(tmp_path):
    made = searching(layers=Range(low=1, high=4, is_whole=True), name=Range(choices=("relu", "elu")))
    for _ in range(8):
        made = with_next(tmp_path, made)
    assert len({tuple(trial.settings.items()) for trial in made.trials}) == 8


def test_values_of_a_narrow_range_lie_in_it(tmp_path):
    made = searching(rate=Range(low=0.12345671, high=0.12345679))
    for _ in range(3):
        made = with_next(tmp_path, made)
    assert all(0.12345671 <= rate <= 0.12345679 for rate in rates(made)) and len(set(rates(made))) == 3


def run_queue(folder, sweep, stop_after=None):
    """Run it on one core, two trials at once; stop it as by Ctrl-C after `stop_after` trials."""
    request, ended = StopRequest(Stage.RUNNING), []

    def on_end(trial, how, busy_s):
        ended.append(trial)
        if len(ended) == stop_after:
            request.signal = Signals.SIGINT

    return Queue(folder, sweep, make_slots(2, [min(os.sched_getaffinity(0))], []), request, on_end).run()


def test_a_search_runs_to_its_end_and_goes_on_after_a_stop(tmp_path, monkeypatch):
    monkeypatch.setattr(trial_process, "OURS", (sys.executable, str(Path(__file__).with_name("toy_training.py"))))
    started = with_next(tmp_path, searching(combinations=5, seeds=(0, 1)))
    write_sweep(tmp_path, started)
    assert not run_queue(tmp_path, started, stop_after=3)
    kept = read_sweep(tmp_path)
    assert 4 <= len(kept.trials) < 10 and kept.trials[:2] == started.trials
    assert run_queue(tmp_path, kept)
    ended = read_sweep(tmp_path)
    lines = results(tmp_path, ended)
    assert len(ended.trials) == 10 and [one.done for one in lines] == [2] * 5
    assert lines[0].settings["rate"] == max((one.settings["rate"] for one in lines), key=float)


def test_without_optuna_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MachineError, match=r"pip install 'gmi-drl\[sweep\]'"):
        with_next(tmp_path, searching())
