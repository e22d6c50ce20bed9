import pytest
from bench.toy import toy_case

from gmi_drl.bench.runner import run_case
from gmi_drl.errors import GmiError, MachineError


def test_sides_alternate_and_ratios_are_taken_round_by_round():
    case, heard = toy_case(), []
    result = run_case(case, repeats=3, quick=True, on_sample=lambda *sample: heard.append(sample[:2]))
    assert case.open.log == ["open, quick True", "ours", "theirs", "theirs", "ours", "ours", "theirs", "closed"]
    assert heard == [(1, "ours"), (1, "theirs"), (2, "theirs"), (2, "ours"), (3, "ours"), (3, "theirs")]
    assert result.ratios["theirs"].rounds == (4.0, 2.0, 1.5) and result.ratios["theirs"].median == 2.0
    assert result.summaries["ours"].model_dump() == {"median": 3.0, "least": 2.0, "most": 4.0}
    assert result.settings.repeats == 3 and result.settings.quick
    assert result.samples["ours"][0].details["copy_s"] == 0.002


def test_times_turn_the_ratio_round():
    result = run_case(toy_case(lower_is_better=True), repeats=1)
    assert result.ratios["theirs"].median == 0.25
    assert result.below(0.3) == ["toy: 0.25x (0.25-0.25) against theirs is below 0.3"] and result.below(0.25) == []


def test_one_side_has_no_ratio_and_may_measure_anything():
    result = run_case(toy_case({"ours": (-1.0,)}), repeats=2)
    assert result.ratios == {} and result.summaries["ours"].median == -1.0


def test_sides_that_are_not_compared_have_no_ratios():
    result = run_case(toy_case(compared=False), repeats=2)
    assert result.ratios == {} and list(result.summaries) == ["ours", "theirs"]


def test_a_ratio_to_nothing_is_refused():
    with pytest.raises(GmiError, match=r"toy: theirs measured 0 steps/s or less"):
        run_case(toy_case({"ours": (1.0,), "theirs": (0.0,)}), repeats=1)


def test_a_machine_that_cannot_says_why():
    case = toy_case(obstacle=lambda: "it needs a GPU: find one")
    with pytest.raises(MachineError, match=r"toy cannot run on this machine: it needs a GPU: find one"):
        run_case(case, repeats=1)
    assert case.open.log == []
