import json
import shutil
import sys
from pathlib import Path

import pytest
from conftest import environment, tiny_config, tiny_layout, two_cores

from gmi_drl.cli.train.checks import warn_physics
from gmi_drl.config import physics
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.files import dump_yaml
from gmi_drl.gmi import allowed_cores
from gmi_drl.run.checkpoint import UNSEALED
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from tests.fork_server import SERVER

TINY = ["--num-env", 8, "--set", "learner.horizon=4", "--set", "learner.epochs=1", "--iterations", 2]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of one GMI that is done, and what was printed meanwhile."""
    folder = tmp_path_factory.mktemp("trained")
    command = [Path(sys.executable).with_name("gmi-drl"), "train", *map(str, TINY), "--gmis-per-gpu", "1"]
    command += ["--run-dir", "run", "--seed", "3"]
    env = environment() | {"GMI_DRL_CLAIMS": str(folder / "claims")}
    run = SERVER.run(command, cwd=folder, capture_output=True, text=True, env=env)
    assert run.returncode == 0, run.stderr
    return folder / "run", run.stdout, run.stderr


@pytest.fixture
def finished(trained, tmp_path):
    """A copy of it, in the folder of the test."""
    path, out, err = trained
    return shutil.copytree(path, tmp_path / "run"), out, err


def test_a_run_tells_where_it_is_and_what_next(finished):
    path, out, err = finished
    assert "Training ant on 1 GMI with 8 environments in run" in err and "iteration 2/2" in err
    assert out == "Done: run holds metrics.jsonl and run/checkpoints/000002. Next: gmi-drl status run\n"
    layout, config = RunFolder(path).read_setup()
    assert (
        config.seed == 3
        and layout.num_env == 8
        and [row["iteration"] for row in read_metrics(path / "metrics.jsonl")] == [1, 2]
    )


def test_a_run_goes_on_and_says_so_in_json(finished, command_line):
    code, out, err = command_line("train", "--resume", "run", "--iterations", 3, "--format", "json")
    assert "begin anew" not in err
    assert code == 0 and json.loads(out) == {
        "schema": "gmi-drl/train/1",
        "run": "run",
        "state": "done",
        "iteration": 3,
        "checkpoint": "run/checkpoints/000003",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--resume", "run"], 2, "the run has done 2 of 2 iterations: raise them with --iterations"),
        (
            ["--resume", "run", "--iterations", 4, "--num-env", 9],
            2,
            "the run has 8 environments in all and this layout 18",
        ),
        (["--run-dir", "run"], 2, "run holds a run already"),
        (["--resume", "run", "--set", "learner.init_std=1.0"], 2, "init_std: the run has 0.3: only a new run begins"),
        (["--resume", "run", "--set", "learner.learning_rate=1e-3"], 2, "the run began with 0.001 and goes on with"),
        (
            ["--resume", "run", "--set", "learner.learning_rate=1e-3", "--set", "learner.schedule=fixed"],
            2,
            "learner.learning_rate: the run began with 0.001 and goes on with",
        ),
        (["--resume", "run", "--iterations", 4, "--set", "iterations=3"], 2, "iterations is given twice, as 4 and as"),
        (["--resume", "run", "--iterations", 4, "--seed", 4], 2, "seed: the run has 3: another one is another run"),
        (
            ["--resume", "run", "--iterations", 4, "--set", "learner.hidden=[8]"],
            2,
            "learner.hidden: the run has [256, 128, 64]: its networks",
        ),
        (
            ["--resume", "run", "--iterations", 4, "--set", "learner.activation=tanh"],
            2,
            "learner.activation: the run has elu: its networks",
        ),
    ],
)
def test_what_does_not_fit_the_run_is_refused(finished, command_line, arguments, code, message):
    returned, _, err = command_line("train", *arguments)
    assert returned == code and message in err


def test_the_learning_rate_of_the_checkpoint_is_refused_though_a_resumption_that_died_set_another(
    finished, command_line
):
    path, _, _ = finished
    resume = ["train", "--resume", "run", "--set", "learner.learning_rate=1e-3"]
    config = path / "config.yaml"
    config.write_text(config.read_text().replace("learning_rate: 0.001", "learning_rate: 0.0005"))
    code, _, err = command_line(*resume)
    assert code == 2 and "learner.learning_rate: the run began with 0.001 and goes on with" in err
    (path / "metrics.jsonl").unlink()
    code, _, err = command_line(*resume)
    assert code == 2 and "and may have adapted it: its metrics do not show that" in err


def test_a_corrupt_checkpoint_is_refused(finished, command_line):
    path, _, _ = finished
    part = path / "checkpoints/000002/learner.safetensors"
    part.write_bytes(part.read_bytes()[:-7])
    code, _, err = command_line("train", "--resume", "run", "--iterations", 4)
    assert (
        code == 2
        and "learner.safetensors is missing or was changed" in err
        and "away to use the checkpoint before it" in err
    )


@pytest.mark.parametrize("arguments", [["train", "--resume", "run", "--iterations", 4], ["play", "run", "--steps", 1]])
@pytest.mark.parametrize(
    ("noted", "message"),
    [
        ({"num_obs": 61}, "ant is not what run has learnt: numbers of an observation: 61, now 60: "),
        ({"num_actions": 9}, "of an action: 9, now 8"),
        ({"action_bounds": "8 x [-2, 2]"}, "bounds of actions: 8 x [-2, 2], now "),
    ],
)
def test_a_task_that_has_changed_is_refused_with_both_sides(finished, command_line, arguments, noted, message):
    file = finished[0] / "task.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | noted))
    code, _, err = command_line(*arguments)
    assert code == 2 and message in err


def test_a_run_of_an_earlier_version_has_noted_no_task_and_is_played(finished, command_line):
    (finished[0] / "task.json").unlink()
    assert command_line("play", "run", "--steps", 1)[0] == 0


@two_cores
def test_a_run_is_resized_with_as_many_environments(finished, command_line, tmp_path):
    code, _, err = command_line("train", "--resume", "run", "--iterations", 3, "--gmis-per-gpu", 2)
    assert code == 0 and "on 2 GMIs with 8 environments" in err
    told = "The layout is not that of the checkpoint (1 GMI, now 2): environments start anew\n"
    assert err.index(told) < err.index("Training ant")
    layout, _ = RunFolder(tmp_path / "run").read_setup()
    assert [gmi.num_env for gmi in layout.gmis] == [4, 4]


def test_a_checkpoint_with_the_digest_of_an_earlier_version_resumes_with_new_environments(finished, command_line):
    path, _, _ = finished
    file = path / "checkpoints/000002/checkpoint.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": UNSEALED, "layout": "0123456789abcdef"}))
    code, _, err = command_line("train", "--resume", "run", "--iterations", 3)
    assert code == 0 and "(or it is of an earlier version of gmi-drl): environments start anew\n" in err


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({"task": "elephant"}, [], "there is no task 'elephant'"),
        ({"task": None}, [], "this layout names none"),
        ({"template": None}, [], "names no template"),
        ({}, ["--num-env", 4], "--num-env: the layout file decides that"),
    ],
)
def test_a_layout_that_cannot_be_trained_is_refused(command_line, tmp_path, change, arguments, message):
    (tmp_path / "layout.yaml").write_text(dump_yaml(tiny_layout(1, **change)))
    code, _, err = command_line("train", "layout.yaml", *arguments)
    assert code == 2 and message in err


def test_a_task_of_gymnasium_is_trained_and_resumed_with_new_environments(command_line, tmp_path):
    task, name = ("--task", "gymnasium:Pendulum-v1", "--env-arg", "g=9.5"), 'gymnasium:Pendulum-v1{"g": 9.5}'
    code, _, err = command_line("train", *task, *TINY, "--gmis-per-gpu", 1)
    (path,) = (tmp_path / "runs").glob("gymnasium-Pendulum-v1-*")
    layout, _ = RunFolder(path).read_setup()
    assert code == 0 and layout.task == name and f"Training {name} on 1 GMI" in err
    code, _, err = command_line("train", "--resume", path, "--iterations", 3)
    assert code == 0 and f"The simulator of {name} cannot save its state: environments start anew\n" in err
    rows = read_metrics(path / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [1, 2, 3] and all(row["reward_mean"] < 0 for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "--env-arg needs a --task"),
        (["plan", "--task", "ant"], "ant is a task of gmi-drl and takes no arguments"),
        (["profile", "--task", "AT"], "AT is a task of gmi-drl and takes no arguments"),
    ],
)
def test_arguments_of_environments_are_for_those_of_others(command_line, arguments, message):
    code, _, err = command_line(*arguments, "--env-arg", "g=9.5")
    assert code == 2 and message in err


def test_a_task_in_a_layout_imports_nothing_from_the_working_directory(tmp_path):
    (tmp_path / "evil.py").write_text("open('marker', 'w')")
    (tmp_path / "layout.yaml").write_text(dump_yaml(tiny_layout(1, task="gymnasium:evil:X-v0")))
    command = [Path(sys.executable).with_name("gmi-drl"), "train", "layout.yaml", "--iterations", "1"]
    run = SERVER.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment())
    assert run.returncode == 4 and "name the folder of evil in PYTHONPATH" in " ".join(run.stderr.split()), run.stderr
    assert not (tmp_path / "marker").exists()


def test_a_layout_for_more_cores_does_not_match(command_line, tmp_path):
    many = tiny_layout(len(allowed_cores()) + 1)
    (tmp_path / "layout.yaml").write_text(dump_yaml(many))
    code, _, err = command_line("train", "layout.yaml")
    assert code == 5 and "this process may use 0.." in err


@pytest.mark.parametrize(
    ("task", "kind", "installed", "is_told"),
    [
        ("ant", "gpu", False, True),
        ("ant", "gpu", True, False),
        ("ant", "cpu", False, False),
        ("mujoco:Ant-v5", "gpu", False, False),
    ],
)
def test_a_hint_is_printed_if_a_gpu_layout_simulates_on_cores(task, kind, installed, is_told, monkeypatch, capsys):
    monkeypatch.setattr(physics, "has_warp", lambda: installed)
    layout = tiny_layout()
    devices = tuple(device.model_copy(update={"kind": kind}) for device in layout.devices)
    warn_physics(layout.model_copy(update={"task": task, "devices": devices}), RunConfig())
    assert ("pip install 'gmi-drl[warp]'" in capsys.readouterr().err) == is_told


@pytest.mark.parametrize("from_layout", [False, True])
@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--set", "physics=warp", "--set", "learner.gamma=0.9"], 2, "brings its own simulator: leave them out"),
        (["--set", "reward_terms=true"], 2, "does not report terms of its reward: leave it out"),
        (["--algo", "rsl_rl"], 4, "needs rsl-rl-lib 5.4, not 5.3.1"),
    ],
)
def test_what_cannot_be_is_refused_before_a_simulator_starts(
    command_line, tmp_path, monkeypatch, from_layout, options, code, message
):
    monkeypatch.setattr("gmi_drl.launch.task_info._ask", None)
    monkeypatch.setattr("gmi_drl.config.learners.entries.version", lambda package: "5.3.1")
    task = "isaaclab:Isaac-Ant-v0"
    (tmp_path / "mine.yaml").write_text(dump_yaml(tiny_layout(1, task=task)))
    where = ["mine.yaml"] if from_layout else ["--task", task]
    found, _, err = command_line("train", *where, *options, "--run-dir", "run")
    assert found == code and message in " ".join(err.split()) and not (tmp_path / "run").exists(), err


def test_a_run_that_goes_on_is_refused_settings_before_a_simulator_starts(finished, command_line, monkeypatch):
    path, _, _ = finished
    monkeypatch.setattr("gmi_drl.launch.task_info._ask", None)
    layout, config = RunFolder(path).read_setup()
    RunFolder(path).write_setup(layout.model_copy(update={"task": "isaaclab:Isaac-Ant-v0"}), config)
    again = ("--resume", path, "--gmis-per-gpu", 1, "--set", "physics=warp")
    code, _, err = command_line("train", *again)
    assert code == 2 and "brings its own simulator: leave them out" in " ".join(err.split()), err


def test_a_backend_is_named_where_no_layout_names_it(command_line, tmp_path):
    small = ("train", "--num-env", 4, "--gmis-per-gpu", 1, "--iterations", 1)
    code, _, err = command_line(*small, "--backend", "mps", "--run-dir", tmp_path / "mps")
    assert code == 5 and "MPS shares GPUs, and the layout has none: take `--backend process`" in err
    code, _, err = command_line(*small, "--backend", "atuo")
    assert code == 2 and "did you mean 'auto'?" in err
    code, _, err = command_line(*small, "--backend", "auto", "--run-dir", tmp_path / "auto")
    assert code == 0 and "backend: auto" in (tmp_path / "auto" / "layout.yaml").read_text(), err


def test_policies_that_have_saved_no_iteration_in_common_are_not_begun_anew(command_line, tmp_path):
    """Whoever is told to do that would be told then to resume."""
    folder = RunFolder(tmp_path / "run")
    folder.create()
    folder.write_setup(tiny_layout(), tiny_config())
    for name, iteration in {"a": 4, "b": 5}.items():
        saved = folder.policy(name).checkpoints / f"{iteration:06d}"
        saved.mkdir(parents=True)
        (saved / "checkpoint.json").write_text("{}")
    code, _, err = command_line("train", "--resume", str(folder.path))
    assert code == 2 and "no iteration that all of its policies have saved: begin a new run" in err
    code, _, err = command_line("train", "--run-dir", str(folder.path), "--num-env", "4", "--iterations", "1")
    assert code == 2 and "holds a run already: choose another --run-dir" in err


@pytest.mark.parametrize("name", ["ant", 'gymnasium:X{"path": "s3://b"}', f'gymnasium:X{{"path": "{"x" * 300}"}}'])
def test_a_task_in_place_of_a_layout_is_what_it_is_by_its_option(command_line, tmp_path, monkeypatch, name):
    """Where a folder has its name, with // in it, and longer than the name of a file may be."""
    seen = []

    def begin(options):
        seen.append((options.layout, options.task))
        raise UsageError("seen")

    (tmp_path / "ant").mkdir()
    monkeypatch.setattr("gmi_drl.cli.train.command.begin", begin)
    for words in ([name], ["--task", name]):
        code, _, err = command_line("train", *words)
        assert (code, err) == (2, "gmi-drl: seen\n")
    assert seen == 2 * [(None, name)]


def test_a_folder_that_is_no_task_is_told_as_one(command_line, tmp_path):
    (tmp_path / "mine").mkdir()
    code, _, err = command_line("train", "mine")
    assert code == 2 and "mine: cannot be read: Is a directory" in err
