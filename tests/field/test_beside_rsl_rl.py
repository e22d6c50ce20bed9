import json
from types import SimpleNamespace

import beside_rsl_rl
import learning_gap
import pytest
import torch
from beside_rsl_rl import (
    ALONE,
    BF16,
    OURS,
    ROUNDS,
    SIDES,
    THEIRS,
    alone,
    measure,
    speeds,
    steps_per_second,
    steps_to,
    tell,
)

from gmi_drl.gmi.inventory.cores import has_bf16


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(learning_gap, "RESULTS", tmp_path)
    monkeypatch.setattr(beside_rsl_rl, "FILE", tmp_path / "speeds.jsonl")
    return tmp_path


def test_a_goal_is_reached_by_the_mean_of_five_updates():
    assert steps_to(10.0, [0.0] * 5 + [50.0] + [0.0] * 4) == 600_000, "of ten updates the sixth"
    assert steps_to(10.0, [10.0, None, None, 10.0, 10.0, 0.0]) == pytest.approx(5e6 / 6), "episodes end in some alone"
    with pytest.raises(ValueError, match="never came to a return of 10"):
        steps_to(10.0, [9.0] * 10)


def test_all_sides_are_timed_in_turns_and_tasks_that_are_measured_again_take_their_place(monkeypatch):
    started = []

    def run(command, **_):
        started.append(tuple(command[-2:]))
        return SimpleNamespace(stdout="250.5\n")

    monkeypatch.setattr(beside_rsl_rl.subprocess, "run", run)
    monkeypatch.setattr(beside_rsl_rl, "has_bf16", lambda: True)
    measure(["ant", "anymal"])
    monkeypatch.setattr(beside_rsl_rl, "has_bf16", lambda: False)
    measure(["ant"])
    assert started[:8] == [("ant", side) for side in (OURS, THEIRS, BF16, ALONE)] * 2
    assert [one["task"] for one in speeds()] == ["anymal"] * 4 * ROUNDS + ["ant"] * 3 * ROUNDS
    assert speeds()[0] == {"task": "anymal", "side": OURS, "round": 0, "steps_per_second": 250.5}


def test_seconds_are_steps_divided_by_steps_per_second(results, capsys):
    returns = {OURS: [0.0] * 5 + [90000.0] * 5, THEIRS: [0.0] * 7 + [90000.0] * 3, BF16: [0.0] * 3 + [90000.0] * 7}
    trained = [{"side": side, "seed": seed, "returns": returns[side]} for side in SIDES for seed in (1, 2)]
    (results / "ant.jsonl").write_text("".join(json.dumps(one) + "\n" for one in trained))
    timed = [
        {"task": "ant", "side": side, "steps_per_second": rate}
        for side, rate in ((OURS, 3000.0), (THEIRS, 2000.0), (BF16, 4000.0), (ALONE, 6000.0))
    ]
    beside_rsl_rl.FILE.write_text("".join(json.dumps(one) + "\n" for one in timed))
    tell()
    _, line, rounded, _, _, parts, parts_rounded = capsys.readouterr().out.splitlines()
    speed = "3,000 / 2,000 1.50 (1.50-1.50)"
    expected = f"ant gmi-drl 2000 2 / 2 600 / 800 1.33 (1.33-1.33) {speed} 200.0 / 400.0 2.00 (2.00-2.00)"
    assert line.split() == expected.split()
    speed = "4,000 / 2,000 2.00 (2.00-2.00)"
    expected = f"ant bf16 2000 2 / 2 500 / 800 1.60 (1.60-1.60) {speed} 125.0 / 400.0 3.20 (3.20-3.20)"
    assert rounded.split() == expected.split()
    parts_of_ours = ["ant", "gmi-drl", "6,000", "steps/s,", "0.50", "2.00", "0.96"]
    assert parts.split() == parts_of_ours, "333 us beside 167, and beside 346"
    assert parts_rounded.split() == ["ant", "bf16", "6,000", "steps/s,", "0.67", "4.00", "0.74"], "and 449"


def test_a_task_whose_environments_were_not_timed_alone_has_no_parts(results, capsys):
    trained = [{"side": side, "seed": seed, "returns": [90000.0] * 10} for side in SIDES for seed in (1, 2)]
    (results / "ant.jsonl").write_text("".join(json.dumps(one) + "\n" for one in trained))
    timed = [{"task": "ant", "side": side, "steps_per_second": 2000.0} for side in SIDES]
    beside_rsl_rl.FILE.write_text("".join(json.dumps(one) + "\n" for one in timed))
    tell()
    assert [line[:4] for line in capsys.readouterr().out.splitlines()] == ["task", "ant ", "ant ", "", "task"]


def test_both_train_and_environments_step_alone(monkeypatch):
    monkeypatch.setattr(beside_rsl_rl, "ALONE_S", 0.1)
    monkeypatch.setattr(learning_gap, "NUM_ENV", 16)
    monkeypatch.setattr(beside_rsl_rl, "NUM_ENV", 16)
    monkeypatch.setattr(beside_rsl_rl, "UPDATES", 2)
    threads = torch.get_num_threads()
    try:
        assert all(steps_per_second("ant", side) > 0 for side in SIDES if side != BF16 or has_bf16())
        assert alone("ant") > 0
    finally:
        torch.set_num_threads(threads)
