import json
from pathlib import Path

import pytest
from conftest import tiny_config, tiny_layout

from gmi_drl.results.comparison import curve, estimate, interquartile_mean
from gmi_drl.results.text_plot import text_plot
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.run_data import RunData, differences, groups_of


def run_of(returns, seed=0, **settings):
    rows = [
        {"iteration": number, "env_steps": 10 * number, "return_mean": value, "steps_per_second": 100.0}
        for number, value in enumerate(returns, 1)
    ]
    return RunData(Path(f"run{seed}"), tiny_layout(), tiny_config(seed=seed, **settings), rows, "done")


def write_run(path, run):
    folder = RunFolder(path)
    folder.create()
    folder.write_setup(run.layout, run.config)
    folder.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in run.rows))


def test_runs_that_differ_by_their_seeds_are_one_configuration():
    runs = [run_of([1], seed=0), run_of([1], seed=1), run_of([1], seed=0, tf32=True)]
    groups = groups_of(runs)
    assert [[run.config.seed for run in group] for group in groups] == [[0, 1], [0]]
    assert differences(groups) == {"tf32": [False, True]}


def test_the_final_return_is_of_the_last_tenth_or_of_evaluations():
    run = run_of([0.0] * 18 + [4.0, 6.0])
    assert run.final_return == 5 and run.steps_per_second == 100
    run.rows[3]["eval_return_mean"] = 7.0
    assert run.final_return == 7
    assert run_of([None]).final_return is None


def test_the_interquartile_mean_is_taken_from_eight_seeds_on():
    assert interquartile_mean([100, 1, 2, 3, 4, -50, 2, 3]) == 2.5
    few, many = estimate([1.0, 2.0]), estimate([100.0, 1, 2, 3, 4, -50, 2, 3])
    assert (few.statistic, few.low) == ("mean", None)
    assert (many.statistic, many.value) == ("interquartile mean", 2.5) and many.low < 2.5 < many.high
    assert estimate([]) is None


def test_a_curve_is_the_mean_as_far_as_all_seeds_go():
    points = curve([run_of([0, 10, 20]), run_of([10, 20], seed=1)])
    assert points[0] == (10, 5) and points[-1] == (20, pytest.approx(15))
    assert curve([run_of([None])]) == [] and curve([run_of([3])]) == [(10, 3)]


def test_a_plot_fits_its_width():
    lines = text_plot({"A": [(0, 0), (1e6, 5)], "B": [(0, 5)]}, 80, "steps")
    assert max(map(len, lines)) == 80 and lines[0].lstrip().startswith("5 |B") and lines[0].endswith("A")
    assert lines[-1].endswith("1.0M steps") and text_plot({"A": []}, 80, "steps") == []
    assert text_plot({"A": [(1, 1)]}, 40, "steps")


def test_the_command_shows_differences_curves_and_intervals(command_line, tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"a{seed}", run_of([1, 2, seed], seed=seed))
    write_run(tmp_path / "b", run_of([1, 2, 9], tf32=True))
    code, out, err = command_line("compare", *(tmp_path / name for name in ("a0", "a1", "a2", "b")))
    assert (code, err) == (0, "")
    assert "tf32     False  True" in out and "1.0 (mean)    0.0 to 2.0" in out and "9.0 (mean)    -" in out
    code, out, _ = command_line("compare", tmp_path / "a0", tmp_path / "b", "--format", "json")
    first, second = json.loads(out)["configurations"]
    assert (first["seeds"], second["settings"], second["final_return"]["value"]) == ([0], {"tf32": True}, 9)


def test_what_is_no_run_has_no_rows_or_is_twice_there_is_exit_2(command_line, tmp_path):
    write_run(tmp_path / "empty", run_of([]))
    for arguments, message in (
        ([tmp_path / "nowhere"], "is not a run folder"),
        ([tmp_path / "empty"], "has no row of metrics yet"),
        ([tmp_path / "empty", "empty"], "a run is given twice"),
        ([], "RUN..."),
    ):
        code, _, err = command_line("compare", *arguments)
        assert code == 2 and message in err.replace("\n", " ")
