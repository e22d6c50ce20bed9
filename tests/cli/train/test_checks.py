import os
from pathlib import Path

import pytest
import yaml
from conftest import tiny_layout

from gmi_drl.cli.train.checks import check
from gmi_drl.cli.train.options import TrainOptions, apply_options
from gmi_drl.cli.train.resume import run_of
from gmi_drl.config.learners.rsl_rl import runner_config
from gmi_drl.config.run_config import default_config
from gmi_drl.errors import UsageError
from gmi_drl.launch.job import resolve
from gmi_drl.run.folder import RunFolder
from gmi_drl.workload import TASK_SPECS

NOTHING = dict.fromkeys(TrainOptions.__dataclass_fields__) | {"set": (), "launcher": "local", "apply_mig": False}
OURS = default_config(TASK_SPECS["ant"])
THEIRS = default_config(TASK_SPECS["ant"], "rsl_rl")


def given(*settings, **more):
    return TrainOptions(**NOTHING | {"set": settings} | more)


@pytest.fixture
def agent_file(tmp_path):
    """Writes a file of rsl_rl's with more keys."""

    def write(**more):
        path = tmp_path / "agent.yaml"
        path.write_text(yaml.dump(runner_config(OURS.learner) | more))
        return path

    return write


def test_settings_of_a_run_by_rsl_rls_names_are_those_of_the_run():
    names = ("max_iterations=2", "seed=7", "save_interval=5")
    config = apply_options(THEIRS, given(*(f"learner.runner.{name}" for name in names)))
    assert (config.iterations, config.seed, config.checkpoint_every) == (2, 7, 5)
    assert not {"max_iterations", "seed", "save_interval"} & set(config.learner.runner)


def test_the_command_line_counts_before_the_file(agent_file):
    path = agent_file(max_iterations=3, seed=5)
    config = apply_options(THEIRS, given("learner.runner.max_iterations=2", rsl_rl_config=path))
    assert (config.iterations, config.seed) == (2, 5)


def test_a_configuration_file_counts_before_defaults_and_after_settings(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("version: 2\niterations: 7\nlearner: {kind: ppo, horizon: 5, gamma: 0.9}\n")
    config = apply_options(OURS, given("learner.gamma=0.8", config=file))
    assert (config.iterations, config.learner.horizon, config.learner.gamma) == (7, 5, 0.8)
    assert config.learner.reward_scale == OURS.learner.reward_scale, "the task's, which the file leaves out"
    file.write_text("learner: {horizn: 5}\n")
    with pytest.raises(UsageError, match=r"config.yaml: 1 mistake\n  learner.horizn: .* 'horizon'"):
        apply_options(OURS, given(config=file))
    file.write_text("learner: {kind: a3c}\n")
    with pytest.raises(UsageError, match="is for --algo a3c, the run has ppo"):
        apply_options(OURS, given(config=file))


def test_the_latest_run_is_that_which_was_started_or_ended_last(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="--resume latest: there is no run in runs"):
        run_of(Path("latest"))
    for age, name in enumerate(("new", "old")):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "state.json").write_text("{}")
        os.utime(tmp_path / "runs" / name / "state.json", (1e9 - age, 1e9 - age))
    assert run_of(Path("latest")) == Path("runs/new") and "Resuming runs/new" in capsys.readouterr().err
    assert run_of(Path("runs/old")) == Path("runs/old")


@pytest.mark.parametrize(
    ("base", "more", "settings", "message"),
    [
        (OURS, {"iterations": 16}, ["iterations=15"], "iterations is given twice, as 16 and as 15"),
        (THEIRS, {"seed": 1}, ["learner.runner.seed=2"], "seed is given twice, as 1 and as 2"),
        (OURS, {}, ["learner.runner.seed=2"], "learner.runner: unknown key"),
        (OURS, {}, ["learner.schedule=fixed", "learner.desired_kl=0.1"], "no effect without schedule adaptive"),
        (THEIRS, {}, ["learner.runner.device=cpu"], "learner.runner.device: the layout says where"),
        (THEIRS, {}, ["learner.runner.resume=true"], "a run goes on by `train --resume RUN`"),
        (THEIRS, {}, ["learner.runner.max_iteration=2"], "max_iteration: rsl_rl's runner has no such key"),
        (THEIRS, {}, ["learner.runner.algorithm.schedule=banana"], "algorithm.schedule: Input should be 'adaptive'"),
        (THEIRS, {}, ["learner.runner={num_steps_per_env: 4, seed: 3}"], "learner.runner.seed is seed of the run"),
    ],
)
def test_what_would_be_without_effect_is_refused(base, more, settings, message):
    with pytest.raises(UsageError, match=message):
        apply_options(base, given(*settings, **more))


def test_a_setting_for_gpus_is_told_where_there_are_cores_alone(capsys):
    for tf32, words in ((True, ["tf32 has no effect here: cores compute in float32"]), (False, [])):
        config = OURS.model_copy(update={"tf32": tf32})
        check(resolve(tiny_layout(1), config, RunFolder(Path("run"))), "local", apply_mig=False, has_run_here=True)
        assert capsys.readouterr().err.splitlines() == words


def test_what_users_of_rsl_rl_have_in_their_files_without_effect_is_told(agent_file, capsys):
    path = agent_file(device="cuda:0", resume=True, load_run=".*", experiment_name="flat", run_name="", odd=1)
    apply_options(THEIRS, given(rsl_rl_config=path))
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("learner.runner.")[2].partition(":")[0] for line in said] == [
        *("resume", "load_run", "device", "experiment_name", "odd")
    ]
    assert all(line.startswith(f"{path}: no effect here: ") for line in said)


def test_loggers_are_the_writers_of_the_configuration():
    assert apply_options(OURS, given(logger=("csv", "tensorboard"))).writers == ("csv", "tensorboard")
    named = OURS.model_copy(update={"writers": ("csv",)})
    assert apply_options(named, given(logger=("none",))).writers == () and apply_options(named, given()).writers == (
        "csv",
    )
    assert apply_options(OURS, given(logger=("csv", "csv"))).writers == ("csv",)
    with pytest.raises(UsageError, match="--logger none turns all others off"):
        apply_options(OURS, given(logger=("none", "csv")))
    with pytest.raises(UsageError, match="there is no writer 'mlflow'"):
        apply_options(OURS, given(logger=("mlflow",)))
