"""`gmi_drl.plan` and `gmi_drl.train` do what the commands do."""

import inspect
from pathlib import Path

import pytest
from conftest import two_cores

import gmi_drl
from gmi_drl.cli.plan.command import plan as plan_command
from gmi_drl.cli.train.command import train as train_command
from gmi_drl.errors import UsageError
from gmi_drl.files import load_yaml
from gmi_drl.layout.layout import Layout

TINY = {"learner.horizon": 4, "learner.epochs": 1}
FOR_TERMINALS = {"format", "explain", "what_if", "prices", "env_arg", "logger"}
"""Options without an argument: they print, or are a part of another argument."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GMI_DRL_CLAIMS", str(tmp_path / "claims"))
    return tmp_path


@pytest.mark.parametrize(
    ("function", "command", "renamed"),
    [
        (gmi_drl.plan, plan_command, {"set": "settings", "profiles": "profile"}),
        (gmi_drl.train, train_command, {"set": "settings"}),
    ],
)
def test_every_option_is_an_argument(function, command, renamed):
    options = {renamed.get(option.name, option.name) for option in command.params} - FOR_TERMINALS
    assert set(inspect.signature(function).parameters) - {"on_row"} == options


def test_a_plan_is_returned_and_written(folder):
    plan = gmi_drl.plan("anymal", budget=0, gmis_per_gpu=1, num_env=8, output="anymal.yaml")
    assert plan.layout.task == "anymal" and plan.layout.num_env == 8
    assert load_yaml(Layout, folder / "anymal.yaml") == plan.layout


def test_a_plan_is_of_the_task_as_it_is_played(folder):
    with pytest.raises(UsageError, match=r"task\.pad"):
        gmi_drl.plan("anymal", budget=0, settings={"task.pad": True})


def test_a_plan_of_a_profile_has_its_candidates(folder, request):
    plans = request.config.rootpath / "examples" / "plans"
    node, profile = plans / "h100-pair.yaml", plans / "h100-pair.json"
    plan = gmi_drl.plan(node=node, profile=profile, backend="process")
    assert plan == gmi_drl.plan(node=node, profile=[profile], backend="process")
    assert plan.candidates and {len(device.gmis) for device in plan.layout.devices} == {2}


@two_cores
def test_a_layout_is_trained_and_resumed(folder):
    layout = gmi_drl.plan(budget=0, gmis_per_gpu=2, num_env=4).layout
    rows = []
    run = gmi_drl.train(layout, iterations=2, run_dir="run", settings=TINY, on_row=rows.append)
    assert (run.state, run.iteration, run.folder.name) == ("done", 2, "run") and run.checkpoint.is_dir()
    assert [row["iteration"] for row in rows] == [1, 2]
    assert gmi_drl.train(resume="run", iterations=3).iteration == 3


def test_mistakes_are_those_of_the_commands(folder):
    with pytest.raises(UsageError, match="--profile measures nothing"):
        gmi_drl.plan(profile="p.json", budget=3)
    with pytest.raises(UsageError, match=r"num_env: 0 is not in the range 1<=x"):
        gmi_drl.train(num_env=0)
    with pytest.raises(UsageError, match=r"num_env: 64\.0 is a float: give an int"):
        gmi_drl.train(num_env=64.0)
    with pytest.raises(UsageError, match=r"gpus: -1 is not in the range x>=1"):
        gmi_drl.plan(gpus=-1)
    with pytest.raises(UsageError, match=r"objective: 'speed' is not one of 'steps', 'learning'"):
        gmi_drl.plan(budget=0, objective="speed")
    with pytest.raises(UsageError, match=r"budget: nan is not a finite number"):
        gmi_drl.plan(budget=float("nan"))
    with pytest.raises(UsageError, match=r"launcher: 'slurm' is not one of 'local', 'ray'"):
        gmi_drl.train(launcher="slurm")
    with pytest.raises(UsageError, match=r"settings: learner.gamma is a PosixPath: give a number"):
        gmi_drl.train(settings={"learner.gamma": Path("0.9")})
    with pytest.raises(UsageError, match=r"did you mean 'gamma'"):
        gmi_drl.train(settings={"learner.gama": 0.9})
    with pytest.raises(UsageError, match=r"--seed|--num-env: the layout file decides that: change the layout"):
        gmi_drl.train(gmi_drl.plan(budget=0, gmis_per_gpu=1).layout, num_env=3)
