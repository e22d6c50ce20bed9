"""Runs of three programs on tasks with choices: they are resumed, and their tables tell what their lines have."""

import json
import re
import sys
from dataclasses import replace

import discrete_picture
import discrete_tables
import discrete_tasks
import pytest
import torch
from discrete_tasks import OURS, SIDES, TASKS

TASK = "CartPole-v1"


def line(side, seed, *, late=100.0, cpu_s=10.0, updates=10):
    """A run whose last tenth returned `late`, and what came before 1."""
    made = [(100 * n, cpu_s * n / updates, 20, 20 * (late if n == updates else 1.0)) for n in range(1, updates + 1)]
    return {"task": TASK, "side": side, "seed": seed, "env_steps": 100 * updates, "cpu_s": cpu_s, "updates": made}


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(discrete_tasks, "RESULTS", tmp_path)
    return tmp_path


def test_ours_trains_by_the_settings_of_all_sides(monkeypatch):
    monkeypatch.setitem(TASKS, TASK, replace(TASKS[TASK], steps=4096, epochs=1))
    threads = torch.get_num_threads()
    try:
        run = discrete_tasks.train("learn", TASK, OURS, 3)
    finally:
        torch.set_num_threads(threads)
    assert [steps for steps, *_ in run["updates"]] == [2048, 4096]
    assert sum(episodes for _, _, episodes, _ in run["updates"]) > 20
    assert 5 < discrete_tables.late_return(run) < 100


def test_only_what_is_missing_is_run(results, monkeypatch):
    (results / "learn.jsonl").write_text(json.dumps(line(OURS, 1)) + "\n")
    fake = results / "fake.py"
    fake.write_text(f"import json, sys\nprint(json.dumps({line('SIDE', 0)!r} | {{'side': sys.argv[4]}}))\n")
    monkeypatch.setattr(discrete_tasks, "__file__", str(fake))
    discrete_tasks.run_missing("learn", [TASK], SIDES, 1)
    assert sorted(run["side"] for run in discrete_tasks.runs("learn")) == sorted(SIDES)


def test_tables_tell_each_side_and_the_ratio_of_ours(results, capsys):
    sides = {OURS: 200.0, "sb3": 100.0}
    lines = [line(side, seed, late=late, cpu_s=late / 10) for side, late in sides.items() for seed in (1, 2, 3)]
    for kind in ("learn", "speed"):
        (results / f"{kind}.jsonl").write_text("".join(json.dumps(of) + "\n" for of in lines))
    discrete_tables.tell()
    told = capsys.readouterr().out
    assert "200 200 200" in told and re.search(r"2\.00 \(2\.00-2\.00\) +0\.10 ", told)
    assert "3 not reached" in told
    equal = [line(side, seed, late=500.0) for side in sides for seed in (1, 2, 3)]
    (results / "learn.jsonl").write_text("".join(json.dumps(of) + "\n" for of in equal))
    discrete_tables.tell()
    assert capsys.readouterr().out.count("1.00 (1.00-1.00)") == 1, "of the other side alone"
    assert "0.50 (0.50-0.50)" in told  # twice the CPU seconds


def test_a_threshold_is_reached_by_twenty_episodes_or_more():
    run = line(OURS, 1, late=500.0)
    assert discrete_tables.reached_at(run, 475).cpu_s == 10.0
    assert discrete_tables.reached_at(run, 501) is None
    assert discrete_tables.reached_at(run, 1).cpu_s == 1.0


def test_steps_to_a_threshold_have_a_median_if_all_seeds_reached_it(capsys):
    runs = [line(OURS, seed, late=500.0) for seed in (1, 2)] + [line("sb3", 1, late=500.0), line("sb3", 2, late=100.0)]
    discrete_tables.tell_steps(TASKS, SIDES, runs)
    ours, theirs = capsys.readouterr().out.strip().splitlines()[1:]
    assert ours.split()[1:] == [OURS, "1", "1", "1"]
    assert theirs.endswith("sb3               1, 1 not reached")


def test_curves_of_all_tasks_are_drawn(results):
    (results / "learn.jsonl").write_text("".join(json.dumps(line(side, 1)) + "\n" for side in SIDES))
    discrete_picture.draw(results / "learn.png", TASKS, SIDES, discrete_tasks.runs("learn"))
    assert (results / "learn.png").read_bytes().startswith(b"\x89PNG")


def test_seven_sides_are_drawn(tmp_path):
    sides = [f"side {number}" for number in range(7)]
    discrete_picture.draw(tmp_path / "learn.png", TASKS, sides, [line(side, 1) for side in sides])
    assert (tmp_path / "learn.png").read_bytes().startswith(b"\x89PNG")


def test_speed_settings_have_64_environments_and_as_many_samples_as_peers():
    fast = discrete_tasks.for_speed(TASKS["LunarLander-v3"])
    assert (fast.num_env, fast.samples) == (64, 2048)


def test_an_unknown_task_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["discrete_tasks.py", "learn", "Chess"])
    with pytest.raises(SystemExit):
        discrete_tasks.main()
    assert "unknown task Chess: there are CartPole-v1" in capsys.readouterr().err
