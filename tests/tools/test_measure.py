import sys
from dataclasses import replace
from subprocess import CompletedProcess

import pytest

from gmi_drl.benchmarks.result import load_result
from gmi_drl.benchmarks.runner import run_case
from tests.benchmarks.toy import toy_case, toy_machine
from tools import measure
from tools.checkout import ROOT, command


def test_what_is_stale_or_missing_is_wanted_in_the_order_asked_for():
    costs, ant_step = (of_toy(name) for name in ("costs", "ant_step"))
    results = {"costs": costs, "ant_step": ant_step}
    assert measure.wanted(["planning", "costs", "ant_step"], results, {"ant_step"}) == ["planning", "ant_step"]


def test_what_was_measured_on_a_busy_machine_is_due_again_unless_ray_made_it_busy():
    names = ["costs", "planning", "rllib_cluster", "ray_overhead"]
    busy = {name: 0.3 if name != "costs" else 0.01 for name in names}
    assert measure.wanted(names, {name: of_toy(name, busy=busy[name]) for name in names}, {}) == ["planning"]


def test_a_result_never_loses_the_side_of_a_peer_that_is_not_here(here, monkeypatch, capfd):
    before = of_toy("pong_speed", sides=("gmi-drl", "sb3_games", "rllib"))
    monkeypatch.setattr(measure, "load_results", lambda folder: {"pong_speed": before})
    monkeypatch.setattr(measure, "stale", lambda results: {"pong_speed"})
    monkeypatch.setattr(measure.peers, "no_environment", lambda peer: f"{measure.peers.SETUP} {peer}")
    monkeypatch.setitem(measure.CASES, "pong_speed", replace(measure.CASES["pong_speed"], obstacle=lambda: None))
    monkeypatch.setattr(sys, "argv", ["measure", "pong_speed"])
    monkeypatch.setattr(measure.subprocess, "run", lambda **line: pytest.fail("measured"))
    assert measure.main() == 1
    told = capfd.readouterr().out
    assert "pong_speed: left out: " in told and "cleanrl_envpool" not in told
    assert all(f"python benchmarks/peers/setup.py {peer}" in told for peer in ("sb3_games", "rllib"))


def test_what_is_left_out_for_lack_of_a_peer_alone_fails(here, monkeypatch, capfd):
    lacks = replace(measure.CASES["planning"], obstacle=lambda: f"missing: {measure.peers.SETUP} sb3")
    monkeypatch.setitem(measure.CASES, "planning", lacks)
    monkeypatch.setattr(sys, "argv", ["measure", "planning"])
    assert measure.main() == 1
    assert "planning: left out: missing: python benchmarks/peers/setup.py sb3" in capfd.readouterr().out


def of_toy(name, sides=("ours",), busy=0.01):
    """A result of a case without its measurement."""
    result = run_case(toy_case({side: (1.0,) for side in sides}, name=name), repeats=1)
    return result.model_copy(update={"machine": toy_machine(busy=busy)})


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
