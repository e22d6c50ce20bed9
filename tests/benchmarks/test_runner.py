import time
from contextlib import contextmanager

import pytest

from gmi_drl.benchmarks import calibration
from gmi_drl.benchmarks.case import Sample
from gmi_drl.benchmarks.result import load_result, write_result
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.errors import GmiError, MachineError
from tests.benchmarks.toy import toy_case


def test_sides_alternate_and_ratios_are_taken_round_by_round():
    case, heard = toy_case(), []
    result = run_case(case, repeats=3, quick=True, on_sample=lambda *sample: heard.append(sample[:2]))
    assert case.open.log == ["open, quick True", "ours", "theirs", "theirs", "ours", "ours", "theirs", "closed"]
    assert heard == [(1, "ours"), (1, "theirs"), (2, "theirs"), (2, "ours"), (3, "ours"), (3, "theirs")]
    assert result.ratios["theirs"].rounds == (4.0, 2.0, 1.5) and result.ratios["theirs"].median == 2.0
    assert result.summaries["ours"].model_dump() == {"median": 3.0, "least": 2.0, "most": 4.0}
    assert result.settings.repeats == 3 and result.settings.quick
    assert result.samples["ours"][0].details["copy_s"] == 0.002


def test_lower_is_better_inverts_ratio():
    result = run_case(toy_case(lower_is_better=True), repeats=1)
    assert result.ratios["theirs"].median == 0.25
    assert result.below(0.25) == []
    assert result.below(0.3) == ["toy: 0.25x (range 0.25-0.25) against theirs is below 0.3"]


def test_one_side_has_no_ratio_and_may_measure_anything():
    result = run_case(toy_case({"ours": (-1.0,)}), repeats=2)
    assert result.ratios == {} and result.summaries["ours"].median == -1.0


def test_sides_that_are_not_compared_have_no_ratios():
    result = run_case(toy_case(compared=False), repeats=2)
    assert result.ratios == {} and list(result.summaries) == ["ours", "theirs"]


def test_a_ratio_to_nothing_is_refused():
    with pytest.raises(GmiError, match=r"toy: theirs measured 0 steps/s or less"):
        run_case(toy_case({"ours": (1.0,), "theirs": (0.0,)}), repeats=1)


def test_a_machine_that_cannot_run_a_case_gives_the_reason():
    case = toy_case(obstacle=lambda: "it needs a GPU: find one")
    with pytest.raises(MachineError, match=r"toy cannot run on this machine: it needs a GPU: find one"):
        run_case(case, repeats=1)
    assert case.open.log == []


def test_a_choice_that_both_sides_make_is_measured_once_and_has_no_ratio(tmp_path):
    calls = []

    @contextmanager
    def open_sides(quick):
        def chosen():
            calls.append("chosen")
            return Sample(4.0)

        yield {"ours": chosen, "another": lambda: Sample(2.0), "the same": chosen}

    result = run_case(toy_case(open=open_sides), repeats=5)
    assert calls == ["chosen"] * 5 and len(result.samples["the same"]) == 5
    assert result.same == ("the same",) and list(result.ratios) == ["another"]
    assert [result.against(side) for side in result.samples] == ["", "2.00x (2.00-2.00)", "same choice"]
    write_result(result, tmp_path / "toy.json")
    assert load_result(tmp_path / "toy.json") == result


def test_a_fall_of_both_sides_is_seen_beside_the_calibration(monkeypatch):
    monkeypatch.setattr(calibration, "SIZE", 128)
    monkeypatch.setattr(calibration, "COPIED", 2**16)
    monkeypatch.setattr(time, "perf_counter", time.thread_time)  # which no other process takes away

    def run(times):
        @contextmanager
        def open_sides(quick):
            work = calibration.Calibration()

            def measure():
                started = time.perf_counter()
                for _ in range(times):
                    work()
                return Sample((time.perf_counter() - started) / calibration.LOOPS)

            yield {"ours": measure, "theirs": lambda: measure()}

        return run_case(toy_case(open=open_sides, lower_is_better=True), repeats=3)

    floor = 0.1  # of what is the calibration's own work, so usually one
    usual, slowed = run(1), run(100)
    assert usual.below_floor(floor) == []
    assert slowed.below(floor) == [], "their fall hides ours"
    (sentence,) = slowed.below_floor(floor)
    assert "toy: 0.0" in sentence and "is below 0.1" in sentence
