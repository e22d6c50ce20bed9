"""Trainings whose rows TensorBoard reads, and whose writers fail."""

import sys

import pytest

from gmi_drl.run.metrics import read_metrics
from gmi_drl.run.writers.tags import scalars

SMALL = ["--num-env", 32, "--gmis-per-gpu", 1]


def test_tensorboard_shows_what_the_metrics_have_also_of_a_run_that_went_on(command_line, tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra [tensorboard]"
    )
    chosen = ["--set", "writers=[tensorboard]", "--set", "reward_terms=true"]
    assert command_line("train", *SMALL, "--iterations", 2, "--run-dir", "run", *chosen)[0] == 0
    assert command_line("train", "--resume", "run", "--iterations", 4)[0] == 0
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
    events = accumulator.EventAccumulator(str(tmp_path / "run")).Reload()
    assert len(list(tmp_path.glob("run/events.out.tfevents.*"))) == 2
    assert {"Train/mean_reward", "Perf/total_fps", "GMI/0/sim_s", "Reward/alive"} <= {*events.Tags()["scalars"]}
    for tag in events.Tags()["scalars"]:
        expected = [(row["iteration"], scalars(row)[tag]) for row in rows if tag in scalars(row)]
        assert [(event.step, event.value) for event in events.Scalars(tag)] == [
            (step, pytest.approx(value, rel=1e-6)) for step, value in expected
        ]


def test_people_are_told_of_a_writer_that_cannot_start_and_the_run_goes_on(command_line, monkeypatch):
    monkeypatch.delitem(sys.modules, "gmi_drl.run.writers.wandb", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", None)  # as if it were not installed
    code, out, err = command_line("train", *SMALL, "--iterations", 2, "--run-dir", "run", "--set", "writers=[wandb]")
    assert code == 0 and out.startswith("Done: ")
    assert "Warning: the writer wandb failed: wandb is not installed" in err and "pip install 'gmi-drl[wandb]'" in err
