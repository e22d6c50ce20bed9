"""The tables and trainings of a first day on a GPU."""

from pathlib import Path

import gpu_table
import gpu_trainings

RESULTS = Path(gpu_table.__file__).parents[1] / "results" / "gpu"


def test_the_committed_table_is_that_of_the_results(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gpu_table.py", str(RESULTS)])
    gpu_table.main()
    assert capsys.readouterr().out == (RESULTS / "table.txt").read_text()


def test_a_way_that_failed_has_no_figures_and_others_are_held_against_one_gmi_alone():
    alone, two = ({"16": {"steps_per_second": speed, "sm_util": 40.0}} for speed in (1000, 500))
    saw = {"plain k=1 none": alone, "plain k=2 IPC": "failed", "mps k=2 IPC": "failed", "mps k=2 MPR-shm": two}
    lines = [*gpu_table.sharing(saw)]
    assert [line.split()[:3] for line in lines if "2 by" in line] == [
        ["2", "by", "plain"],
        ["2", "by", "mps"],
        ["2", "by", "mps,"],
    ]
    assert "not measured" in lines[2] and "0.50x" in next(line for line in lines if line.startswith("2 by mps "))


def row(steps, speed, **more):
    return {
        "env_steps": steps,
        "steps_per_second": speed,
        "sim_s": 0.1,
        "act_s": 0.0,
        "learn_s": 0.2,
        "sync_s": 0.0,
    } | more


def test_a_summary_leaves_out_the_first_quarter_and_counts_the_seconds():
    rows = [row(100 * n, 100.0 if n == 1 else 50.0, return_mean=float(n)) for n in range(1, 5)]
    told = gpu_trainings.summary("ppo", [{"policy": 0}, *rows])
    assert told["steps_per_second"] == 50 and told["phases"]["learn_s"] == 0.2 and told["return_mean"] == 4.0
    assert told["curve"] == [(100, 1.0, 1.0), (200, 3.0, 2.0), (300, 5.0, 3.0), (400, 7.0, 4.0)]
    many = gpu_trainings.curve([row(n, 1.0) for n in range(1, 1001)])
    assert len(many) == gpu_trainings.CURVE and many[-1] == (1000, 1000.0, None)


def test_a_training_is_run_and_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = "--task ant --set physics=native --gmis-per-gpu 1 --num-env 8 --iterations 2"
    monkeypatch.setitem(gpu_trainings.RUNS, "ppo", command)
    monkeypatch.setattr("sys.argv", ["gpu_trainings.py", "run", "kept.jsonl", "ppo"])
    gpu_trainings.main()
    (line,) = Path("kept.jsonl").read_text().splitlines()
    assert '"iterations": 2' in line and command in line and '"torch"' in line
