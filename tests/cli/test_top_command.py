import json
from types import SimpleNamespace

import pytest
from conftest import tiny_config, tiny_layout

from gmi_drl.cli import top
from gmi_drl.run.folder import RunFolder

ROW = {"iteration": 3, "env_steps": 300, "steps_per_second": 1000.0, "return_mean": 7.25}
PHASES = {"sim_s": 0.6, "act_s": 0.1, "learn_s": 0.2, "sync_s": 0.1}


@pytest.fixture
def runs(tmp_path):
    for name, state in (("a", "running"), ("sweep/b", "running"), ("c", "done")):
        folder = RunFolder(tmp_path / "runs" / name)
        folder.create()
        folder.write_setup(tiny_layout(), tiny_config(iterations=10))
        folder.write_state(state)
        folder.metrics_file.write_text(json.dumps(ROW | PHASES) + "\n" if name != "sweep/b" else "")


def test_runs_that_train_are_shown_with_their_time_and_what_holds_them_up(command_line, runs):
    code, out, err = command_line("top", "--once")
    assert (code, err) == (0, "") and "runs/a" in out and "runs/sweep/b" in out and "runs/c" not in out
    assert "3/10" in out and "0.7 s" in out and "7.2" in out and "a: 60% is the simulator" in out and "60%" in out


def test_a_pipe_gets_one_table_after_the_other_at_once(command_line, runs, monkeypatch, capsys):
    seen = []

    def sleep(seconds):
        seen.append((seconds, capsys.readouterr().out))
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(top, "time", SimpleNamespace(sleep=sleep))
    command_line("top")
    assert [seconds for seconds, _ in seen] == [2.0, 2.0]
    assert all("runs/a" in out and "3/10" in out and "\x1b" not in out and out.endswith("\n\n") for _, out in seen)


def test_programs_get_one_document(command_line, runs):
    code, out, _ = command_line("top", "--once", "--all", "--format", "json")
    found = {run["run"]: run for run in json.loads(out)["runs"]}
    assert code == 0 and set(found) == {"runs/a", "runs/sweep/b", "runs/c"}
    assert found["runs/a"]["seconds_left"] == pytest.approx(0.7) and found["runs/c"]["seconds_left"] is None
    assert found["runs/sweep/b"]["iteration"] is None
    code, _, err = command_line("top", "--format", "json")
    assert code == 2 and "add --once" in err


def test_without_runs_it_says_so(command_line):
    code, out, _ = command_line("top", "--once")
    assert code == 0 and "No run trains in runs" in out
