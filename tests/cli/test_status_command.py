import json
from contextlib import closing
from dataclasses import replace

from conftest import tiny_config, tiny_layout

from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import MetricsFile
from gmi_drl.workload import TASK_SPECS


def make_run(path, state, message=""):
    folder = RunFolder(path)
    folder.create()
    folder.write_setup(tiny_layout(), tiny_config())
    with closing(MetricsFile(folder.metrics_file)) as metrics:
        metrics.write({"iteration": 7, "env_steps": 12345, "steps_per_second": 20000.0, "return_mean": 3.25})
    folder.write_state(state, message)
    return folder


def test_no_runs(command_line):
    code, out, _ = command_line("status")
    assert code == 0 and "No runs in runs. Start one with: gmi-drl train" in out


def test_a_folder_without_runs_is_named_as_it_is(command_line, tmp_path):
    for name in ("exp[old]", "[/exp]"):
        (tmp_path / name).mkdir(parents=True)
        code, out, err = command_line("status", "--runs-dir", name)
        assert code == 0 and f"No runs in {name}. Start one" in out, err


def test_runs_are_listed(command_line, tmp_path):
    make_run(tmp_path / "runs" / "a", "done")
    make_run(tmp_path / "runs" / "b", "failed", "GMI 1 was killed")
    code, out, _ = command_line("status")
    assert code == 0 and "runs/a" in out and "12.3k" in out and "failed" in out
    code, out, _ = command_line("status", "--format", "json")
    rows = json.loads(out)["runs"]
    assert [row["state"] for row in rows] == ["done", "failed"] and rows[1]["message"] == "GMI 1 was killed"


def test_the_runs_of_a_sweep_are_listed(command_line, tmp_path):
    make_run(tmp_path / "runs" / "sweep-ant" / "0-seed0", "done")
    assert "runs/sweep-ant/0-seed0" in command_line("status")[1]


def test_a_run_that_goes_on_says_on_which_host(command_line, tmp_path):
    folder = make_run(tmp_path / "runs" / "a", "running")
    state = json.loads((folder.path / "state.json").read_text())
    (folder.path / "state.json").write_text(json.dumps(state | {"host": "else[where]", "pid": 2**22 + 1}))
    _, out, _ = command_line("status")
    assert "running on else[where]" in out
    _, out, _ = command_line("status", "--format", "json")
    (row,) = json.loads(out)["runs"]
    assert (row["state"], row["host"]) == ("running", "else[where]")


def test_a_failed_run_says_why(command_line, tmp_path):
    make_run(tmp_path / "run", "failed", "GMI 1 was killed [by hand]")
    _, out, _ = command_line("status", "run")
    assert "GMI 1 was killed [by hand]" in out


def test_in_80_columns_nothing_is_cut(command_line, tmp_path, monkeypatch):
    name = "gymnasium-somebodys_package-Environment-v0-20261125-012112"
    make_run(tmp_path / "runs" / name, "interrupted")
    monkeypatch.setattr("gmi_drl.cli.output.PLAIN_WIDTH", 80)
    _, out, _ = command_line("status")
    first = [line.split()[0] for line in out.splitlines()[1:] if line.strip()]
    assert "".join(first) == f"runs/{name}" and "12.3k" in out and "20.0k" in out and "…" not in out


def test_games_tell_frames_per_second(command_line, tmp_path):
    folder = make_run(tmp_path / "runs" / "a", "done")
    assert json.loads(command_line("status", "--format", "json")[1])["runs"][0]["frames_per_second"] is None
    folder.write_task(replace(TASK_SPECS["ant"], frame_skip=4))
    assert json.loads(command_line("status", "--format", "json")[1])["runs"][0]["frames_per_second"] == 80_000
    assert "runs/a: 80.0k frames/s" in command_line("status")[1]


def test_one_run_tells_which_worker_it_lacks(command_line, tmp_path):
    folder = make_run(tmp_path / "runs" / "a", "done")
    phases = {"sim_s": 1.0, "act_s": 1.0, "learn_s": 1.0, "sync_s": 1.0}
    waits = {"rollouts_wait_s": 1.0, "wait_s": 0.0, "fetch_s": 0.0, "training_frames_per_second": 400.0}
    with closing(MetricsFile(folder.metrics_file)) as metrics:
        metrics.write({"iteration": 8, "env_steps": 1, "steps_per_second": 1.0, "return_mean": 1.0, **phases, **waits})
    assert "add an actor: actors wait 0% for places, trainers 50% for rollouts" in command_line("status", "runs/a")[1]
    (row,) = json.loads(command_line("status", "--format", "json")[1])["runs"]
    assert row["training_frames_per_second"] == 400 and row["verdict"].startswith("add an actor")


def test_a_command_to_copy_quotes_its_folder(command_line, tmp_path, monkeypatch):
    monkeypatch.setattr(RunFolder, "resumable", lambda self: [self.path / "checkpoints" / "000007"])
    make_run(tmp_path / "an ant", "stopped")
    code, out, _ = command_line("status", tmp_path / "an ant")
    assert code == 0 and f"gmi-drl train --resume '{tmp_path / 'an ant'}'" in " ".join(out.split())
