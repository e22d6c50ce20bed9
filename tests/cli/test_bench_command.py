import errno
import json

import pytest

from gmi_drl.benchmarks.result import load_result
from tests.benchmarks.toy import toy_case


@pytest.fixture(autouse=True)
def cases(monkeypatch):
    """One case within its bound, one that this machine cannot run, one without a bound."""
    cases = (
        toy_case(guard=1.5),
        toy_case(name="gpu", guard=1.0, obstacle=lambda: "it needs a GPU"),
        toy_case({"ours": (2.0,)}, name="alone"),
    )
    table = {case.name: case for case in cases}
    monkeypatch.setattr("gmi_drl.benchmarks.cases.CASES", table)
    return table


@pytest.mark.parametrize("arguments", [["bench"], ["bench", "--list"]])
def test_the_cases_are_listed(command_line, arguments):
    code, out, _ = command_line(*arguments)
    assert code == 0 and "A toy | for tests." in out and "not here: it needs a GPU" in out
    assert out.splitlines()[-1] == "Measure one with: gmi-drl bench CASE"
    _, out, _ = command_line(*arguments, "--format", "json")
    rows = json.loads(out)["cases"]
    assert [row["case"] for row in rows] == ["toy", "gpu", "alone"] and rows[0]["guard"] == 1.5


def test_a_case_is_measured_shown_and_written(command_line, tmp_path):
    code, out, err = command_line("bench", "toy", "--repeats", 2, "-o", "toy.json")
    assert code == 0 and "3.00x (range 2.00-4.00)" in out and "2 rounds on" in out
    assert "toy: round 2/2  theirs  1 steps/s" in err and "Wrote toy.json" in err
    assert load_result(tmp_path / "toy.json").settings.repeats == 2 and (tmp_path / "toy.png").exists()


def test_a_plot_is_not_needed(command_line, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    code, _, err = command_line("bench", "toy", "-o", "toy.json")
    assert code == 0 and "pip install 'gmi-drl[plots]'" in err and [*tmp_path.iterdir()] == [tmp_path / "toy.json"]


def test_json_alone_on_stdout(command_line):
    code, out, _ = command_line("bench", "toy", "--format", "json")
    document = json.loads(out)
    assert code == 0 and document["schema"] == "gmi-drl/bench/1" and document["ratios"]["theirs"]["median"] == 2.0


def test_a_ratio_below_the_bound_is_exit_code_6(command_line, tmp_path):
    code, out, err = command_line("bench", "toy", "--fail-below", 2.5, "-o", "toy.json")
    assert code == 6 and "toy: 2.00x (range 1.50-4.00) against theirs is below 2.5" in err
    assert "our ratio" in out and (tmp_path / "toy.json").exists(), "what was measured must not be lost"
    assert command_line("bench", "toy", "--fail-below", 2)[0] == 0


def test_what_was_measured_is_shown_where_it_cannot_be_written(command_line, monkeypatch):
    def full(result, path):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("gmi_drl.benchmarks.result.write_result", full)
    monkeypatch.setattr("gmi_drl.cli.output._close_output", lambda: None)  # which would be that of the tests
    code, out, err = command_line("bench", "toy", "-o", "toy.json")
    assert code == 1 and "our ratio" in out and err.endswith("gmi-drl: toy.json: No space left on device\n")


@pytest.mark.parametrize("more", [{"compared": False}, {"sides": {"ours": (1.0,)}}])
def test_a_case_that_compares_nothing_is_not_measured_to_be_judged(command_line, cases, more):
    cases["one"] = toy_case(name="one", **more)
    code, _, err = command_line("bench", "one", "--fail-below", 1)
    assert code == 2 and "one compares nothing: leave out --fail-below" in err
    assert "ours" not in cases["one"].open.log


def test_the_guard_runs_what_has_a_bound_and_can_run(command_line, cases):
    code, out, err = command_line("bench", "--guard")
    assert code == 0 and "toy:" in out and "alone" not in out and "gpu: left out: it needs a GPU" in err
    assert "Seconds of each case: toy " in err and "All 1 cases: " in err
    assert cases["toy"].open.log[0] == "open, quick True"
    code, out, _ = command_line("bench", "--guard", "--format", "json")
    document = json.loads(out)
    assert document["skipped"] == {"gpu": "it needs a GPU"} and len(document["results"]) == 1
    assert [*document["seconds"]] == ["toy"] and document["seconds"]["toy"] >= 0
    assert document["results"][0]["settings"] == {"repeats": 3, "quick": True}


@pytest.fixture
def own_cores(monkeypatch):
    """As if no other process ran here: tests run beside each other."""
    monkeypatch.setattr("gmi_drl.benchmarks.machine.TOO_BUSY", 2.0)


def test_the_guard_names_every_ratio_that_fell(command_line, cases, own_cores):
    cases["slow"] = toy_case({"ours": (1.0,), "a": (4.0,), "b": (0.5,), "c": (3.0,)}, name="slow", guard=0.5)
    code, _, err = command_line("bench", "--guard")
    assert code == 6 and "slow: 0.25x (range 0.25-0.25) against a" in err
    assert "against c" in err and "against b" not in err
    assert command_line("bench", "toy", "--guard")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["tyo"], 2, "there is no case 'tyo'; did you mean 'toy'?"),
        (["gpu"], 4, "gpu cannot run on this machine: it needs a GPU"),
        (["gpu", "--guard"], 4, "no case could be run: gpu: it needs a GPU"),
        (["alone", "--guard"], 2, "--guard: alone has no bound"),
        (["alone", "--fail-below", "1"], 2, "alone compares nothing"),
        (["--guard", "--fail-below", "1"], 2, "leave out"),
        (["--repeats", "3"], 2, "name it"),
        (["toy", "--stale"], 2, "leave out everything but --format"),
        (["toy", "-o", "nowhere/toy.json"], 2, "the folder nowhere does not exist"),
        (["toy", "-o", "toy.png"], 2, "a result is a .json file"),
    ],
)
def test_wrong_use(command_line, arguments, code, message):
    returned, out, err = command_line("bench", *arguments)
    assert returned == code and message in err and out == ""


def test_a_busy_machine_is_warned_about(command_line, monkeypatch):
    monkeypatch.setattr("gmi_drl.benchmarks.machine.BUSY", 0.0)
    _, _, err = command_line("bench", "toy")
    assert "warning: other processes took" in err


def test_stale_results_are_named_with_exit_code_6(command_line, tmp_path, monkeypatch):
    for name in ("toy", "toy_elsewhere"):
        write(tmp_path / "benchmarks" / "results" / f"{name}.json", command_line)
    monkeypatch.setattr("gmi_drl.benchmarks.stale.ROOT", tmp_path)
    monkeypatch.setattr("gmi_drl.benchmarks.report.CASES", {"toy": toy_case()})
    monkeypatch.setattr("gmi_drl.benchmarks.stale.stale", lambda results: {"toy": "measured long ago"})
    code, out, err = command_line("bench", "--stale")
    assert code == 6 and "toy is stale: measured long ago" in err and "1 of 2 results" in err and out == ""
    code, out, _ = command_line("bench", "--stale", "--format", "json")
    assert code == 6 and json.loads(out)["stale"] == {"toy": "measured long ago"}


def write(path, command_line):
    path.parent.mkdir(parents=True, exist_ok=True)
    assert command_line("bench", "toy", "-o", path)[0] == 0


def test_the_guard_judges_no_fall_where_others_kept_the_cores(command_line, cases, monkeypatch):
    monkeypatch.setattr("gmi_drl.benchmarks.machine.TOO_BUSY", 0.0)
    cases["slow"] = toy_case({"ours": (1.0,), "theirs": (4.0,)}, name="slow", guard=0.5)
    code, out, err = command_line("bench", "--guard", "--format", "json")
    assert code == 0 and "slow: below its bound, which is not counted: other programs took" in err
    assert [*json.loads(out)["unjudged"]] == ["slow"] and json.loads(out)["below"] == []


def test_the_guard_names_a_fall_that_no_ratio_shows(command_line, cases, own_cores):
    cases["both"] = toy_case(name="both", guard=0.5, floor=1e9)
    code, _, err = command_line("bench", "both", "--guard")
    assert code == 6 and "both: " in err and "in a loop of the calibration" in err and "against" not in err
    cases["both"] = toy_case(name="both", guard=0.5, floor=1e-9)
    assert command_line("bench", "both", "--guard")[0] == 0


def test_list_in_place_of_a_case_lists_them(command_line, cases):
    assert command_line("bench", "list") == command_line("bench", "--list") == command_line("bench")
