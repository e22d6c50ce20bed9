"""Asynchronous trainings of real processes: agents and trainers on GMIs of their own."""

import os
import re
import signal
from collections import Counter
from pathlib import Path

import pytest

from gmi_drl.config.learners import A3CConfig, SequenceConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import GmiError, UsageError
from gmi_drl.gmi.inventory import this_node
from gmi_drl.launch.job import resolve
from gmi_drl.launch.training import train
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.cut import Cut
from gmi_drl.run.checkpoint import list_checkpoints, read_index
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from gmi_drl.templates import Decoupled
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]
NUM_ENV, HORIZON = 4, 8


def layout_of(agents=1, trainers=1, num_env=NUM_ENV, **channels):
    cut = Cut(agents + trainers, num_env, share_cores=True)
    return Decoupled(trainers, Channels(**channels)).lay_out(ANT, this_node().model_copy(update={"gpus": None}), cut)


def config_of(iterations=4, **learner):
    small = {"hidden": (16,), "horizon": HORIZON, "minibatches": 1, "schedule": "fixed", **learner}
    return RunConfig(iterations=iterations, checkpoint_every=iterations, hang_s=60.0, learner=A3CConfig(**small))


def start(path, layout, config, **more):
    folder = RunFolder(path)
    folder.create()
    return folder, train(resolve(layout, config, folder), **more)


@pytest.mark.parametrize(
    ("mode", "memory"),
    [
        pytest.param("MCC", {}, marks=pytest.mark.starts_gmis),
        ("UCC", {}),
        ("MCC", {"memory": "gru", "memory_size": 8, "sequence": 4}),
    ],
)
def test_with_no_lag_experience_is_of_the_very_policy_that_learns(tmp_path, mode, memory):
    """So densities on both sides are the same: parameters, statistics and states have come to the other whole."""
    folder, outcome = start(tmp_path / "run", layout_of(mode=mode, max_lag=0), config_of(5, **memory))
    rows = read_metrics(folder.metrics_file)
    assert outcome.state == "done" and [row["iteration"] for row in rows] == [1, 2, 3, 4, 5]
    for row in rows:
        assert row["lag_mean"] == row["lag_max"] == 0 and row["kl"] < 1e-9 and row["rho"] == pytest.approx(1, abs=1e-5)
    assert len({row["value_loss"] for row in rows}) == 5  # it learns, from other steps each time


@pytest.mark.parametrize(("agents", "trainers"), [(2, 1), (1, 2), (3, 2)])
def test_any_ratio_of_agents_and_trainers_keeps_to_its_lag(tmp_path, agents, trainers):
    """Trainers compare what they hold when they save: replicas stay alike."""
    folder, outcome = start(tmp_path / "run", layout_of(agents, trainers, max_lag=1), config_of(6))
    rows = read_metrics(folder.metrics_file)
    rollouts = trainers * -(-agents // trainers)
    assert outcome.state == "done" and len(rows) == 6
    assert rows[-1]["env_steps"] == 6 * rollouts * NUM_ENV * HORIZON
    assert max(row["lag_max"] for row in rows) == 1
    assert all(row["dropped"] == {} for row in rows[:-1]) and set(rows[-1]["dropped"]) <= {"experience ended"}
    assert all(row["fetch_s"] > 0 and row["publish_s"] > 0 for row in rows)
    assert set(rows[-1]["gmis"]) == {str(agents + rank) for rank in range(trainers)}
    assert all(row["predictions_per_second"] > 0 and row["training_samples_per_second"] > 0 for row in rows)
    assert all(row["sim_s"] > 0 and row["act_s"] > 0 and row["learn_s"] > 0 for row in rows)


def test_a_resumed_run_goes_on_with_its_learner_and_its_versions(tmp_path):
    layout = layout_of(max_lag=1)
    folder, outcome = start(tmp_path / "run", layout, config_of(3))
    before = read_index(outcome.checkpoint)
    assert set(before["parts"]) == {"learner.safetensors", "gmi-1.safetensors"}
    again = train(resolve(layout, config_of(5), folder), resume=outcome.checkpoint)
    rows = read_metrics(folder.metrics_file)
    assert again.iteration == 5 and [row["iteration"] for row in rows] == [1, 2, 3, 4, 5]
    assert rows[-1]["env_steps"] == 5 * NUM_ENV * HORIZON and rows[3]["lag_max"] <= 1
    assert read_index(list_checkpoints(folder.checkpoints)[-1])["learner"] != before["learner"]


def test_a_run_that_is_complete_ends_well_once_more(tmp_path):
    """As a restart finds it whose GMI died after the last save: agents wait for a version that still comes."""
    folder, outcome = start(tmp_path / "run", layout_of(2, 1), config_of(2))
    again = train(resolve(layout_of(2, 1), config_of(2), folder), resume=outcome.checkpoint)
    assert again.state == "done" and again.iteration == 2


def signal_gmi(path, gmi_id, number=signal.SIGKILL):
    """Send a GMI of a run a signal, by the log that it writes into; whether it was there."""
    log, is_there = os.path.realpath(path / "logs" / f"gmi-{gmi_id}.log"), False
    for process in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if os.path.realpath(f"/proc/{process}/fd/1") == log:
                os.kill(int(process), number)
                is_there = True
        except OSError:
            continue
    return is_there


@pytest.mark.parametrize("killed", [0, 1], ids=["agent", "trainer"])
def test_a_death_is_an_error_that_names_the_gmi_and_keeps_the_checkpoint(tmp_path, killed):
    def on_row(row):
        if row["iteration"] == 2:
            signal_gmi(tmp_path / "run", killed)

    with pytest.raises(GmiError, match=rf"GMI {killed} .* was killed by SIGKILL"):
        start(tmp_path / "run", layout_of(), config_of(10**6), on_row=on_row)
    assert len(list_checkpoints(RunFolder(tmp_path / "run").checkpoints)) == 1


def restarted(path, layout, iterations, killed, restarts):
    """A run in which a GMI is killed after each of some iterations: how it ended, its rows, and what was told."""
    folder, told, deaths = RunFolder(path), [], dict(killed)
    folder.create()

    def on_row(row):
        if (gmi_id := deaths.pop(row["iteration"], None)) is not None:
            assert signal_gmi(folder.path, gmi_id)

    config = config_of(iterations).model_copy(update={"checkpoint_every": 2})
    outcome = train(resolve(layout, config, folder), restarts=restarts, on_restart=told.append, on_row=on_row)
    return outcome, read_metrics(folder.metrics_file), told


@pytest.mark.parametrize(("agents", "trainers", "iterations"), [(1, 1, 300), (2, 2, 300)])
def test_with_restarts_an_agent_that_dies_is_started_again_alone(tmp_path, agents, trainers, iterations):
    """Twice; rows go on as if nothing had been, but for what was dropped."""
    layout, killed = layout_of(agents, trainers, max_lag=1), {3: 0, 30: 0}
    outcome, rows, told = restarted(tmp_path / "run", layout, iterations, killed, restarts=2)
    assert outcome.state == "done" and [row["iteration"] for row in rows] == list(range(1, iterations + 1))
    assert [line.partition("SIGKILL")[2] for line in told] == [
        " (by a user, or for lack of memory): started again alone, 1 restart left",
        " (by a user, or for lack of memory): started again alone, 0 restarts left",
    ]
    dropped = sum((Counter(row["dropped"]) for row in rows), Counter())
    assert dropped["GMI 0 ended"] <= 2  # fewer where it was killed while it waited for a place
    assert set(dropped) <= {"GMI 0 ended", "experience ended"}
    assert max(row["lag_max"] for row in rows) <= 1
    logs = [(tmp_path / "run" / "logs" / f"gmi-{gmi}.log").read_text() for gmi in range(agents + trainers)]
    assert not any("Error" in log for log in logs)


def test_agents_are_started_again_as_often_as_is_allowed(tmp_path):
    with pytest.raises(GmiError, match=r"GMI 0 .* was killed by SIGKILL"):
        restarted(tmp_path / "run", layout_of(), 10**6, {3: 0, 30: 0}, restarts=1)


def test_with_restarts_the_run_goes_on_from_its_checkpoint_after_a_trainers_death(tmp_path):
    outcome, rows, told = restarted(tmp_path / "run", layout_of(), 60, {3: 1}, restarts=1)
    assert outcome.state == "done" and [row["iteration"] for row in rows] == list(range(1, 61))
    (saved,) = re.findall(r"going on from iteration (\d+), 0 restarts left", told[0])
    assert len(told) == 1 and "GMI 1" in told[0] and 2 <= int(saved) < 60 and int(saved) % 2 == 0


def test_learners_and_templates_that_are_not_for_each_other_are_refused(tmp_path):
    with pytest.raises(UsageError, match="take --algo a3c"):
        resolve(layout_of(), RunConfig(learner=SequenceConfig(data=str(tmp_path))), RunFolder(Path("run")))


def test_an_agent_that_hangs_is_named_though_another_goes_on_and_a_trainer_waits_for_a_trainer(tmp_path):
    stopped = []

    def stop(row):
        if row["iteration"] == 2 and not stopped:
            stopped.append(signal_gmi(tmp_path / "run", 0, signal.SIGSTOP))

    layout = layout_of(2, 2, num_env=64, max_lag=60)  # GMI 1 acts for longer than the others wait
    config = config_of(10**6, horizon=64).model_copy(update={"hang_s": 8.0})
    with pytest.raises(GmiError, match=r"^GMI [23]: GMI 0 \(process \d+\) lives but has not sent experience for 8 s"):
        start(tmp_path / "run", layout, config, on_row=stop)
    assert stopped == [True]
