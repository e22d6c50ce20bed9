import errno
import json
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from gmi_drl.cli import sweep as cli_sweep
from gmi_drl.errors import InUseError
from gmi_drl.launch.signals import EndedAtOnce
from gmi_drl.launch.sweep import run_sweep
from gmi_drl.launch.sweep.sweep_file import read_sweep


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "learner.gama=0.9,0.99"), "gama"),
        (("--set", "learner.gamma=0.9,7"), "learner.gamma"),
        (("--task", "antt"), "antt"),
        (("--seeds", "3-1"), "--seeds 3-1"),
        (("--command", "true", "--task", "ant"), "--task: is for trainings of ours"),
        (("--trials", "3"), "--trials: is for --search"),
        (("--search", "learner.gamma"), "expected KEY=LOW..HIGH"),
        (("--search", "learner.epochs=2..4", "--trials", "4"), "--trials 4: --search has 3 combinations"),
        (("--search", "learner.gamma=0.9..0.99", "--trials", "9999"), "at most 10000 trials"),
        (("--search", "learner.gamma=0.9..7"), "learner.gamma"),
        (("--search", "learner.gama=0.9..0.99"), "gama"),
        (
            ("--search", "learner.gamma=0.9..0.99", "--set", "learner.lam=0.9,0.95"),
            "--set learner.lam: it has one value",
        ),
        (("--command", "true", "--search", "a=1..2"), "--search: is for trainings of ours"),
        (("--command", "'", "--seeds", "0"), "--command: No closing quotation"),
        (("--command", "true"), "--command is the same for 3 seeds: put {seed} where it belongs"),
        (("--command", "true {seed} {LR}", "--set", "lr=1,2"), "--command does not use --set lr: put {lr} where"),
        (("--command", "true {seed}", "--set", "seed=1,2"), "--set seed: --command has its own"),
        (("--command", "no-such-program {name}"), "--command: there is no program no-such-program"),
        (("--resume", "here", "--seeds", "1"), "--seeds: a resumed sweep has its own"),
        (("--resume", "nowhere"), "no folder of a sweep"),
    ],
)
def test_mistakes_are_exit_2_before_anything_is_made(command_line, tmp_path, arguments, message):
    code, out, err = command_line("sweep", *arguments)
    assert (code, out) == (2, "") and message in err and not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("variables", "arguments", "code", "message"),
    [
        ({"RAY_ADDRESS": "127.0.0.1:1"}, ("--launcher", "ray"), 4, "no Ray cluster answers at RAY_ADDRESS=127.0.0.1:1"),
        ({}, ("--launcher", "ray", "--sweep-dir", "a/b/c"), 4, "no Ray cluster runs here"),
        ({}, ("--launcher", "ray", "--sweep-dir", "empty"), 4, "no Ray cluster runs here"),
    ],
)
def test_a_sweep_that_ray_refuses_leaves_nothing(
    command_line, tmp_path, monkeypatch, variables, arguments, code, message
):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("gmi_drl.launch.ray.cluster._answering_heads", list)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "empty").mkdir()
    before = sorted(tmp_path.rglob("*"))
    returned, _, err = command_line("sweep", *arguments)
    assert returned == code and message in " ".join(err.split()), err
    assert sorted(tmp_path.rglob("*")) == before


def test_sweeps_that_start_in_the_same_second_have_folders_of_their_own(command_line, tmp_path, monkeypatch):
    monkeypatch.setattr(time, "strftime", lambda form: "now")
    for _ in range(2):
        code, _, err = command_line("sweep", "--command", "true {seed}", "--seeds", "0", "--at-once", "1")
        assert code == 0, err
    code, _, err = command_line("sweep", "--command", "true", "--seeds", "0-1")
    assert code == 2, "refused, and nothing of it is left"
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["sweep-command-now", "sweep-command-now-2"]


def test_a_sweep_in_a_folder_with_files_touches_none(command_line, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    code, _, err = command_line("sweep", "--sweep-dir", "mine")
    assert code == 2 and "mine is not empty" in err and (tmp_path / "mine" / "notes.txt").read_text() == "keep"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_refused_sweep_leaves_that_of_a_faster_start(command_line, tmp_path, monkeypatch, is_there):
    def other_start(arguments, trial):
        (tmp_path / "both").mkdir(exist_ok=True)
        for name in ("sweep.json", ".lock", "config.yaml"):
            (tmp_path / "both" / name).write_text("theirs")

    monkeypatch.setattr(cli_sweep, "_check", other_start)
    if is_there:
        (tmp_path / "both").mkdir()
    code, _, err = command_line("sweep", "--sweep-dir", "both", "--seeds", "0")
    assert code == 2 and "both is not empty: go on with --resume both" in err
    assert {path.name: path.read_text() for path in (tmp_path / "both").iterdir()} == {
        "sweep.json": "theirs",
        ".lock": "theirs",
        "config.yaml": "theirs",
    }


def test_a_refused_sweep_with_which_another_process_goes_on_stays(command_line, tmp_path, monkeypatch):
    with ExitStack() as other:

        def refused(folder, *more):
            other.enter_context(run_sweep.locked_sweep(folder))
            raise InUseError("another process runs this sweep")

        monkeypatch.setattr(run_sweep, "run_sweep", refused)
        code, _, err = command_line("sweep", "--command", "true {seed}", "--sweep-dir", "a sweep")
        assert code == 7 and read_sweep(tmp_path / "a sweep").total == 3, err
    code, _, err = command_line("sweep", "--command", "true {seed}", "--sweep-dir", "a sweep")
    assert code == 2 and "go on with --resume 'a sweep', or" in err


@pytest.mark.parametrize("error", [EndedAtOnce(signal.SIGINT), OSError(errno.ENOSPC, "No space left on device")])
def test_a_sweep_that_ends_while_it_is_checked_leaves_nothing(command_line, tmp_path, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(cli_sweep, "_check", fail)
    monkeypatch.setattr("gmi_drl.cli.output._close_output", lambda: None)  # which would be that of the tests
    assert command_line("sweep")[0] != 0 and not (tmp_path / "runs").exists()


def test_programs_are_packed_and_the_sweep_is_resumed(command_line, tmp_path):
    given = (
        "sweep",
        "--command",
        "sh -c 'test -e mended || exit {seed}'",
        "--seeds",
        "0-1",
        "--at-once",
        2,
        "--sweep-dir",
        "sweep",
    )
    code, out, err = command_line(*given)
    assert code == 1 and "1 of 2, 1 failed" in out and "1 trial failed. Try again with: gmi-drl sweep --resume" in err
    assert "1-seed1: FAILED with exit code 1 (it has printed nothing): see" in err
    code, _, err = command_line(*given)
    assert code == 2 and "go on with --resume sweep" in err
    (tmp_path / "mended").touch()
    code, out, err = command_line("sweep", "--resume", "sweep", "--format", "json")
    assert code == 0 and "1 trial failed before: tried again" in err and "1-seed1: done (2 of 2)" in err
    (line,) = json.loads(out)["results"]
    assert (line["done"], line["failed"], line["median"]) == (2, 0, None)


def test_files_of_options_are_copied_so_that_a_sweep_is_resumed_from_anywhere(command_line, tmp_path, monkeypatch):
    monkeypatch.setattr(run_sweep, "run_sweep", lambda *arguments: True)
    (tmp_path / "mine.yaml").write_text("version: 2\niterations: 3\n")
    code, _, err = command_line("sweep", "--config", "mine.yaml", "--sweep-dir", "sweep")
    assert code == 0, err
    arguments = read_sweep(tmp_path / "sweep").arguments
    copy = Path(arguments[arguments.index("--config") + 1])
    assert copy == tmp_path / "sweep" / "config.yaml" and copy.read_text() == (tmp_path / "mine.yaml").read_text()


def test_a_search_begins_with_one_combination_of_all_seeds(command_line, tmp_path, monkeypatch):
    monkeypatch.setattr(run_sweep, "run_sweep", lambda *arguments: True)
    ranges = ("--search", "learner.learning_rate=1e-4..1e-2:log", "--search", "learner.epochs=2..5")
    code, _, err = command_line("sweep", *ranges, "--seeds", "0-1", "--trials", 3, "--sweep-dir", "sweep")
    assert code == 0 and "Sweep of 6 trials in sweep" in err, err
    made = read_sweep(tmp_path / "sweep")
    assert [trial.seed for trial in made.trials] == [0, 1] and made.search.combinations == 3
    settings = made.trials[0].settings
    assert 1e-4 <= float(settings["learner.learning_rate"]) <= 1e-2 and settings["learner.epochs"] in "2345"
