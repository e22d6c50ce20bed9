"""Scripts that train from recorded episodes, and MAT beside PPO: what they train, and a short run."""

import json
from dataclasses import replace

import mat
import offline_share
import pytest
import recorded_episodes
import several_tasks
import torch
from trainings import OURS


@pytest.fixture(autouse=True)
def as_many_threads():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("is_normed", [False, True])
def test_sides_of_sac_differ_in_the_recorded_half_of_their_batches_alone(is_normed):
    settings = offline_share.TASKS["HalfCheetah"]
    sides = (offline_share.NORMED, offline_share.BOTH) if is_normed else (OURS, offline_share.RECORDED)
    alone, recorded = (offline_share.config_of(settings, side, 3) for side in sides)
    replay = recorded.learner.replay
    assert replay.offline_share == 0.5 and replay.data.endswith("mujoco_HalfCheetah-v5/expert.replay")
    as_alone = replay.model_copy(update={"data": None, "offline_share": None})
    learner = recorded.learner.model_copy(update={"replay": as_alone})
    assert recorded.model_copy(update={"learner": learner}) == alone and alone.seed == 3
    assert alone.learner.layer_norm == is_normed
    assert alone.learner.horizon * settings.num_env == settings.samples


def test_curves_of_each_task_of_recorded_episodes_are_drawn(tmp_path):
    runs = [
        {
            "task": task,
            "side": side,
            "seed": 1,
            "expert": 9.0,
            "data": 5.0,
            "curve": [[500, 1.0, 2.0], [1000, 2.0, 4.0]],
        }
        for task in ("ant", "mujoco:Hopper-v5")
        for side in recorded_episodes.SIDES
    ]
    recorded_episodes.draw(runs, tmp_path)
    drawn = sorted(tmp_path.iterdir())
    assert [path.name for path in drawn] == ["learn_ant.png", "learn_mujoco_Hopper-v5.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)


@pytest.mark.parametrize("side", [OURS, mat.MAT])
def test_ppo_and_mat_train_for_as_many_steps(side):
    settings = replace(mat.TASKS["Ant"], num_env=4, horizon=8, batch=16, epochs=1, steps=64)
    updates = list(mat.train(settings, side, 1))
    assert [update.env_steps for update in updates] == [32, 64]
    assert updates[0].cpu_s <= updates[1].cpu_s


def test_several_tasks_are_told_by_their_later_evaluations_beside_one_alone(capsys, monkeypatch, tmp_path):
    both = {"side": "a+b", "seed": 1, "expert": {"a": 10.0, "b": 4.0}}
    both["curve"] = [
        [500, 1.0, {"a": 0.0, "b": 0.0}],
        [1000, 2.0, {"a": 6.0, "b": 2.0}],
        [1500, 3.0, {"a": 8.0, "b": 3.0}],
    ]
    alone = {"side": "a", "seed": 1, "expert": {"a": 10.0}, "curve": [[500, 1.0, {"a": 9.0}], [1000, 2.0, {"a": 14.0}]]}
    monkeypatch.setattr(several_tasks, "FILE", tmp_path / "several.jsonl")
    several_tasks.FILE.write_text("".join(json.dumps(run) + "\n" for run in (both, alone)))
    several_tasks.tell()
    rows = capsys.readouterr().out.splitlines()[2:]
    assert rows == ["| a+b | a | 1 | 7 (7 to 7) | 0.50 | 0.70 |", "| a+b | b | 1 | 2 (2 to 2) | not run | 0.62 |"]


def test_runs_of_other_minutes_are_trials_that_nothing_keeps():
    assert recorded_episodes.kept_in(recorded_episodes.FILE, 2.0) == recorded_episodes.FILE
    assert recorded_episodes.kept_in(recorded_episodes.FILE, 1.0) != recorded_episodes.FILE
