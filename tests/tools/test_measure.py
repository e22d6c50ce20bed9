import sys
from dataclasses import replace
from subprocess import CompletedProcess

import pytest

from gmi_drl.benchmarks.result import load_result
from tools import measure
from tools.checkout import ROOT, command


def test_what_is_stale_or_missing_is_wanted_in_the_order_asked_for():
    assert measure.wanted(["planning", "costs", "ant_step"], {"costs": None, "ant_step": None}, {"ant_step"}) == [
        "planning",
        "ant_step",
    ]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of results, all of which are of the code as it is but for `planning`, which has none."""
    costs = load_result(measure.RESULTS / "costs.json")
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    monkeypatch.setattr(measure, "stale", lambda results: {})
    monkeypatch.setattr(measure, "load_results", lambda folder: {"costs": costs})
    return tmp_path


@pytest.mark.parametrize("code", [0, 6])
def test_what_is_due_is_measured_in_full_where_results_are_kept(here, monkeypatch, capfd, code):
    """The command itself: tests/cli/test_bench_command.py."""
    asked = []

    def run(check, **line):
        asked.append(line)
        return CompletedProcess(line, code)

    monkeypatch.setattr(measure.subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["measure", "costs", "planning"])
    assert measure.main() == (1 if code else 0)
    assert "1 of 2 cases to measure: planning" in capfd.readouterr().out
    assert asked == [command(ROOT, "bench", "planning", "-o", str(here / "planning.json"))]


def test_what_this_machine_cannot_measure_is_left_out(here, monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["measure", "planning"])
    planning = replace(measure.CASES["planning"], obstacle=lambda: "no such machine")
    monkeypatch.setitem(measure.CASES, "planning", planning)
    assert measure.main() == 0
    assert "planning: left out: no such machine" in capfd.readouterr().out and not list(here.iterdir())
