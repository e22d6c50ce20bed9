import sys
from dataclasses import replace

import pytest

from gmi_drl.benchmarks.report import load_results
from tools import measure

RESULTS = load_results(measure.RESULTS)


def test_what_is_stale_or_missing_is_wanted_in_the_order_asked_for():
    assert measure.wanted(["planning", "costs", "ant_step"], {"costs": None, "ant_step": None}, {"ant_step"}) == [
        "planning",
        "ant_step",
    ]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of results, all of which are of the code as it is but for `planning`, which has none."""
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    monkeypatch.setattr(measure, "stale", lambda results: {})
    monkeypatch.setattr(measure, "load_results", lambda folder: {"costs": RESULTS["costs"]})
    return tmp_path


def test_what_is_due_is_measured_where_results_are_kept(here, monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["measure", "costs", "planning"])
    assert measure.main() == 0
    assert "1 of 2 cases to measure: planning" in capfd.readouterr().out
    assert load_results(here)["planning"].settings.repeats == measure.CASES["planning"].repeats


def test_what_this_machine_cannot_measure_is_left_out(here, monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["measure", "planning"])
    planning = replace(measure.CASES["planning"], obstacle=lambda: "no such machine")
    monkeypatch.setitem(measure.CASES, "planning", planning)
    assert measure.main() == 0
    assert "planning: left out: no such machine" in capfd.readouterr().out and not list(here.iterdir())
