"""Trainings of real processes: replicas stay alike, a resumed run is bit-identical, a run can be resized."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import tiny_config, tiny_layout, two_cores

from gmi_drl.config.learners import PPOConfig, RslRlConfig
from gmi_drl.config.run_config import WarpRoom
from gmi_drl.errors import GmiError, LayoutMismatchError, UsageError
from gmi_drl.files import dump_yaml, load_yaml
from gmi_drl.gmi import claimed
from gmi_drl.launch.job import resolve
from gmi_drl.launch.processes.gmi_processes import GMIProcesses
from gmi_drl.launch.training import train
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.run.checkpoint import best_checkpoint, list_checkpoints, read_index
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from gmi_drl.run.phases import PHASE_NAMES
from gmi_drl.workload import TASK_SPECS, UNLIMITED_STEPS

ANT = TASK_SPECS["ant"]


def start(path, layout, config, **more):
    folder = RunFolder(path)
    folder.create()
    return folder, train(resolve(layout, config, folder), **more)


def test_evaluations_are_refused_where_episodes_have_no_limit(monkeypatch, tmp_path):
    endless = replace(ANT, episode_steps=UNLIMITED_STEPS)
    monkeypatch.setattr("gmi_drl.launch.job.sizes_of", lambda found, settings: endless)
    with pytest.raises(UsageError, match="eval_every plays whole episodes, and those of ant have no limit"):
        resolve(tiny_layout(1), tiny_config(eval_every=1), RunFolder(tmp_path / "run"))


@pytest.fixture
def impatient(monkeypatch):
    """Somebody who sends two signals while the processes end."""
    end = GMIProcesses.end

    def end_with_signals(processes):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        end(processes)

    monkeypatch.setattr(GMIProcesses, "end", end_with_signals)


def parts_of(checkpoint):
    return {name: digest for name, digest in read_index(checkpoint)["parts"].items()}


@two_cores
@pytest.mark.parametrize("gmis", [1, 2])
def test_a_resumed_run_is_bit_identical_to_an_undisturbed_one(tmp_path, gmis):
    config = tiny_config(checkpoint_every=3, iterations=6)
    whole, _ = start(tmp_path / "whole", tiny_layout(gmis), config)
    parted, outcome = start(tmp_path / "parted", tiny_layout(gmis), config.model_copy(update={"iterations": 3}))
    assert outcome.checkpoint is not None
    with parted.metrics_file.open("a") as rows:
        rows.writelines('{"iteration": 4}\n' for _ in range(2))  # of iterations that no checkpoint has
    told: list[str] = []
    train(resolve(tiny_layout(gmis), config, parted), resume=outcome.checkpoint, on_warning=told.append)
    assert told == [
        "the last checkpoint is of iteration 3: iteration 4 is repeated; the rows in metrics.jsonl of before are now "
        "in metrics.dropped.jsonl"
    ]
    (*_, expected), (*_, resumed) = list_checkpoints(whole.checkpoints), list_checkpoints(parted.checkpoints)
    assert expected.name == resumed.name == "000006"
    assert parts_of(expected) == parts_of(resumed) and len(parts_of(expected)) == 1 + gmis
    assert [row["iteration"] for row in read_metrics(parted.metrics_file)] == [1, 2, 3, 4, 5, 6]
    same = ("reward_mean", "kl", "learning_rate", "env_steps")
    rows = [[{name: row[name] for name in same} for row in read_metrics(f.metrics_file)] for f in (whole, parted)]
    assert rows[0] == rows[1]


@two_cores
@pytest.mark.parametrize("reduction", [pytest.param("MPR-shm", marks=pytest.mark.starts_gmis), "MPR-gloo"])
def test_replicas_are_bit_identical_after_fifty_updates(tmp_path, reduction):
    """Every checkpoint compares digests of parameters, optimizer and normaliser over the GMIs."""
    config = tiny_config(iterations=25, checkpoint_every=5, learner=PPOConfig(horizon=2, epochs=1, minibatches=2))
    folder, outcome = start(tmp_path / "run", tiny_layout(2, reduction=reduction), config)
    rows = read_metrics(folder.metrics_file)
    assert outcome.state == "done" and len(rows) == 25
    assert rows[-1]["learning_rate"] != rows[0]["learning_rate"] and rows[-1]["skipped_updates"] == 0
    assert set(rows[-1]["gmis"]) == {"0", "1"}


@two_cores
def test_a_run_is_resized_by_resuming_it_on_another_layout(tmp_path):
    config = tiny_config(iterations=2)
    folder, outcome = start(tmp_path / "run", tiny_layout(2, num_env=8), config)
    one = tiny_layout(1, num_env=16)
    again = train(resolve(one, config.model_copy(update={"iterations": 4}), folder), resume=outcome.checkpoint)
    assert again.iteration == 4 and again.checkpoint is not None
    assert set(parts_of(again.checkpoint)) == {"learner.safetensors", "gmi-0.safetensors"}


def test_a_run_goes_on_from_its_very_first_checkpoint(tmp_path):
    config = tiny_config(iterations=1, checkpoint_every=10)
    folder, outcome = start(tmp_path / "run", tiny_layout(1), config)
    shutil.rmtree(outcome.checkpoint)  # as if it had been killed before
    (first,) = list_checkpoints(folder.checkpoints)
    again = train(resolve(tiny_layout(1), config, folder), resume=first)
    assert first.name == "000000" and again.iteration == 1 and parts_of(again.checkpoint)
    (row,) = read_metrics(folder.metrics_file)  # what comes again is told once
    took_s = sum(row[phase] for phase in PHASE_NAMES)
    assert row["iteration"] == 1 and row["steps_per_second"] == pytest.approx(row["env_steps"] / took_s)


def test_settings_given_on_resume_take_effect_and_steps_go_on_counting(tmp_path):
    config = tiny_config(iterations=1)
    folder, outcome = start(tmp_path / "run", tiny_layout(1), config)
    changed = config.learner.model_copy(update={"learning_rate": 5e-5, "schedule": "fixed", "horizon": 6})
    later = config.model_copy(update={"iterations": 2, "learner": changed})
    train(resolve(tiny_layout(1), later, folder), resume=outcome.checkpoint)
    first, second = read_metrics(folder.metrics_file)
    assert second["learning_rate"] == pytest.approx(5e-5) and second["env_steps"] == first["env_steps"] + 6 * 8


@two_cores
def test_a_resize_that_cannot_start_leaves_the_run_as_it_was(tmp_path):
    folder, outcome = start(tmp_path / "run", tiny_layout(1, num_env=8), tiny_config(iterations=2))
    with claimed([tiny_layout(2)], "the other run"), pytest.raises(LayoutMismatchError):
        train(resolve(tiny_layout(2, num_env=4), tiny_config(), folder), resume=outcome.checkpoint)
    assert folder.read_setup() == (tiny_layout(1, num_env=8), tiny_config(iterations=2))
    assert folder.read_state()["state"] == "done"


@pytest.mark.parametrize("groups", [{"trainers": (0,)}, {"trainers": (0, 1), "solo": (0,)}, {}])
def test_groups_that_would_part_the_replicas_are_refused(tmp_path, groups):
    named = {name: GmiGroup(members=members) for name, members in groups.items()}
    layout = tiny_layout(2).model_copy(update={"groups": named})
    with pytest.raises(UsageError, match="the one group"):
        train(resolve(layout, tiny_config(), RunFolder(tmp_path)))


def test_roles_may_stand_in_any_order(tmp_path):
    text = dump_yaml(tiny_layout(1))
    assert "[simulator, agent, trainer]" in text
    (tmp_path / "layout.yaml").write_text(text.replace("[simulator, agent, trainer]", "[agent, trainer, simulator]"))
    resolve(load_yaml(Layout, tmp_path / "layout.yaml"), tiny_config(), RunFolder(Path("run")))


def test_groups_of_observations_that_only_a_simulator_knows_are_left_to_it(monkeypatch):
    monkeypatch.setattr("gmi_drl.launch.task_info._ask", lambda name, settings: ANT)
    learner = RslRlConfig.for_task(ANT)
    learner = RslRlConfig(runner=learner.runner | {"obs_groups": {"actor": ["policy"], "critic": ["camera"]}})
    config = tiny_config(learner=learner)
    monkeypatch.setattr("gmi_drl.config.learners.entries.version", lambda package: "5.4")
    resolve(tiny_layout(1, task="isaaclab:Isaac-Ant-v0"), config, RunFolder(Path("run")))
    with pytest.raises(UsageError, match="no group camera, only policy"):
        resolve(tiny_layout(1), config, RunFolder(Path("run")))


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("mujoco:Ant-v5", {"physics": "warp"}, "MuJoCo Warp's float32 cannot: leave physics and warp out"),
        ("gymnasium:Nowhere-v1", {"physics": "native"}, "brings its own simulator: leave them out"),
        ("gymnasium:Nowhere-v1", {"reward_terms": True}, "reward_terms is for the tasks of gmi-drl.*: leave it out"),
        ("ant", {"warp": WarpRoom(njmax=100)}, "the physics here is native: leave them out"),
    ],
)
def test_what_a_simulator_cannot_do_is_refused_before_anything_starts(tmp_path, task, settings, message):
    folder = RunFolder(tmp_path / "run")
    folder.create()
    with pytest.raises(UsageError, match=message):
        train(resolve(tiny_layout(1, task=task), tiny_config(**settings), folder))
    assert not list(folder.log_file(0).parent.iterdir()) and not folder.layout_file.exists()


def test_the_time_limit_ends_a_run_with_a_checkpoint(tmp_path):
    folder, outcome = start(tmp_path / "run", tiny_layout(1), tiny_config(iterations=10**6, time_limit_s=0.5))
    assert outcome.state == "done" and 0 < outcome.iteration < 10**6
    assert outcome.checkpoint is not None and int(outcome.checkpoint.name) == outcome.iteration
    assert folder.read_state()["state"] == "done"


def test_cores_in_use_are_refused_before_anything_starts(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create()
    with (
        claimed([tiny_layout(1)], "the other run"),
        pytest.raises(LayoutMismatchError, match=r"in use by process .*the other run"),
    ):
        train(resolve(tiny_layout(1), tiny_config(), folder))
    assert not folder.layout_file.exists() and not folder.log_file(0).exists()


def test_an_error_in_a_gmi_ends_the_run_and_is_told(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create()
    broken = folder.checkpoints / "000003"
    broken.mkdir()
    (broken / "checkpoint.json").write_text("{}")
    with pytest.raises(LayoutMismatchError, match="other checkpoints meanwhile"):
        train(resolve(tiny_layout(1), tiny_config(), folder))
    with pytest.raises(GmiError, match=r"GMI 0: .*000003: checkpoint.json is (missing|broken)(.|\n)*its log is"):
        train(resolve(tiny_layout(1), tiny_config(), folder), resume=broken)
    assert "000003" in folder.read_state()["message"]


def test_a_result_stands_whatever_signals_come_while_the_processes_end(tmp_path, impatient):
    folder, outcome = start(tmp_path / "run", tiny_layout(1), tiny_config(iterations=1))
    assert (outcome.state, outcome.iteration, outcome.signal) == ("done", 1, None)
    assert folder.read_state()["state"] == "done"


def test_a_signal_in_the_last_iteration_leaves_a_run_that_is_done(tmp_path):
    """Nobody is told to go on with it."""
    config = tiny_config(iterations=1)
    folder, outcome = start(
        tmp_path / "run", tiny_layout(1), config, on_start=lambda: os.kill(os.getpid(), signal.SIGTERM)
    )
    assert (outcome.state, outcome.iteration, outcome.signal) == ("done", 1, signal.SIGTERM)
    assert folder.read_state()["state"] == "done" and int(outcome.checkpoint.name) == 1


def test_a_result_stands_though_a_signal_comes_while_its_state_is_written(tmp_path, monkeypatch):
    write_state = RunFolder.write_state

    def interrupted(folder, state, message=""):
        if state == "done":
            os.kill(os.getpid(), signal.SIGINT)
        write_state(folder, state, message)

    monkeypatch.setattr(RunFolder, "write_state", interrupted)
    folder, outcome = start(tmp_path / "run", tiny_layout(1), tiny_config(iterations=1))
    assert outcome.state == folder.read_state()["state"] == "done"


def test_an_error_stands_whatever_signals_come_while_the_processes_end(tmp_path, impatient):
    folder = RunFolder(tmp_path / "run")
    folder.create()
    broken = folder.checkpoints / "000003"
    broken.mkdir()
    (broken / "checkpoint.json").write_text("{}")
    with pytest.raises(GmiError, match=r"missing|broken"):
        train(resolve(tiny_layout(1), tiny_config(), folder), resume=broken)
    assert folder.read_state()["state"] == "failed"


def test_a_learner_that_exchanges_by_itself_is_refused_over_several_hosts():
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    devices = tuple(
        Device(node=node, kind="cpu", gmis=(GMI(id=number, num_env=8, cores=(0,)),)) for number, node in enumerate("ab")
    )
    groups = {"trainers": GmiGroup(members=(0, 1), reduction="HAR")}
    layout = Layout(task="ant", template="TCG_EX", devices=devices, groups=groups)
    with pytest.raises(UsageError, match="rsl_rl trains on one host, the layout is over a, b: take one node"):
        resolve(layout, tiny_config(learner=RslRlConfig.for_task(ANT)), RunFolder(Path("run")))
    resolve(layout, tiny_config(), RunFolder(Path("run")))


@two_cores
def test_evaluations_are_in_the_rows_leave_the_training_alone_and_keep_the_best(tmp_path):
    config = tiny_config(iterations=4, checkpoint_every=4, checkpoints_kept=1)
    plain, _ = start(tmp_path / "plain", tiny_layout(2, task="ball_balance"), config)
    more = {"eval_every": 1, "eval_num_env": 3}
    folder, outcome = start(tmp_path / "evaluated", tiny_layout(2, task="ball_balance"), config.model_copy(update=more))
    returns = [row["eval_return_mean"] for row in read_metrics(folder.metrics_file)]
    assert len(returns) == 4 and all(row["eval_length_mean"] > 1 for row in read_metrics(folder.metrics_file))
    best = best_checkpoint(folder.checkpoints)
    assert int(best.name) == 1 + returns.index(max(returns))
    assert {best, outcome.checkpoint} == set(list_checkpoints(folder.checkpoints))
    assert read_index(outcome.checkpoint)["best_return"] == max(returns)
    assert parts_of(outcome.checkpoint) == parts_of(plain.checkpoints / "000004")
