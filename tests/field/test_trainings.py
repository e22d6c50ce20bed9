"""Scripts of trainings of the same tasks by several programs: what they train, and how a trial is kept apart."""

import json
import sys
from dataclasses import replace

import minatar_dqn
import minatar_games
import pong
import pytest
import simple_spread
import torch
import trainings
from trainings import OURS, Settings, Update, our_config

from gmi_drl.benchmarks import peers

SCRIPTS = {"minatar_games": minatar_games, "pong": pong, "simple_spread": simple_spread}


@pytest.mark.parametrize("name", SCRIPTS)
def test_ours_takes_the_settings_of_all_sides(name):
    script = SCRIPTS[name]
    for settings in script.TASKS.values():
        learner = our_config(settings, seed=1).learner
        assert learner.horizon * settings.num_env == settings.samples == learner.minibatches * settings.batch
        assert (learner.conv or ()) == settings.conv
    assert (peers.REPOSITORY / "benchmarks" / "peers" / f"{script.DRIVER}.py").is_file()
    assert script.TRAININGS.sides[0].startswith(OURS)


@pytest.mark.parametrize("side", [OURS, simple_spread.WITH_STATE])
def test_agents_of_simple_spread_train_with_and_without_a_state(side):
    pytest.importorskip("mpe2", reason="needs mpe2")
    threads = torch.get_num_threads()
    settings = replace(simple_spread.TASKS["simple_spread"], num_env=3, horizon=50, batch=50, epochs=1, steps=300)
    try:
        updates = list(simple_spread.train(settings, side, 1))
    finally:
        torch.set_num_threads(threads)
    assert [update.env_steps for update in updates] == [150, 300]
    assert updates[-1].episodes == 6 and updates[-1].return_sum < 0


def test_a_training_ends_when_its_seconds_are_over(monkeypatch):
    seen = []

    def train(settings, side, seed):
        seen.append(settings.cpu_s)
        yield Update(100, 1.0, 2, 6.0)

    script = replace(pong.TRAININGS, train=train)
    assert script.one("Pong", OURS, 1, 60.0) == {
        "task": "Pong",
        "side": OURS,
        "seed": 1,
        "env_steps": 100,
        "cpu_s": 1.0,
        "updates": [(100, 1.0, 2, 6.0)],
    }
    script.one("Pong", OURS, 1, None)
    assert seen == [60.0, pong.HOUR_S]


def test_dqn_takes_the_settings_of_both_sides():
    settings = minatar_dqn.TASKS["Breakout"]
    learner = minatar_dqn.our_dqn(settings, seed=1).learner
    assert learner.updates * settings.every == settings.samples == learner.horizon * settings.num_env
    assert learner.target_every * settings.every == settings.target_steps
    assert (peers.REPOSITORY / "benchmarks" / "peers" / f"{minatar_dqn.DRIVER}.py").is_file()


def test_updates_are_gathered_with_their_episodes_and_the_rest():
    updates = [Update(4 * n, float(n), 1, 2.0, 7) for n in range(1, 6)]
    found = list(minatar_dqn.in_steps_of(8, updates))
    assert found == [Update(8, 2.0, 2, 4.0, 7), Update(16, 4.0, 2, 4.0, 7), Update(20, 5.0, 1, 2.0, 7)]


def test_a_line_tells_the_memory_of_a_replay():
    run = trainings.record("a", OURS, 1, [Update(100, 1.0, 2, 6.0, 3_000_000)])
    assert run["replay_bytes"] == 3_000_000
    assert trainings.in_words(run).endswith("2 episodes of 3.0, replay of 3 MB")


def test_a_trial_is_no_result(monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(trainings, "run_all", lambda script, wanted, file, *more: ran.append((wanted, file.name)))
    pong.TRAININGS.learn(["Pong"], [OURS], 1, 60.0)
    assert ran == [([("Pong", OURS, "1", "--seconds", "60.0")], "trial.jsonl")]


def test_an_unknown_task_of_a_script_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["minatar_games.py", "learn", "Chess"])
    with pytest.raises(SystemExit):
        minatar_games.TRAININGS.main("x")
    assert "unknown task Chess: there are Breakout, Asterix" in capsys.readouterr().err


def test_returns_without_a_threshold_are_told(monkeypatch, tmp_path, capsys):
    line = {"task": "a", "side": OURS, "seed": 1, "env_steps": 100, "cpu_s": 1.0, "updates": [(100, 1.0, 2, -6.0)]}
    (tmp_path / "learn.jsonl").write_text(json.dumps(line) + "\n")
    script = replace(simple_spread.TRAININGS, tasks={"a": Settings("a", 100, None)})
    monkeypatch.setattr(trainings.Trainings, "folder", tmp_path)
    monkeypatch.setattr(sys, "argv", ["simple_spread.py", "tell"])
    script = replace(script, sides=(OURS,))
    script.main("x")
    assert "-3.0" in capsys.readouterr().out
