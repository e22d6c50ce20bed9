import signal
import subprocess
import sys

import pytest
from conftest import environment

from gmi_drl.processes.signals import ENDING

HEAVY = ("torch", "pydantic", "numpy", "mujoco", "yaml")


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["train", "--help"], ["plan", "--help"], ["bench", "--help"]]
)
def test_help_imports_nothing_heavy(arguments):
    code = f"import sys; sys.argv = ['gmi-drl', *{arguments!r}]\nfrom gmi_drl.cli import main\ntry: main()\nfinally: "
    code += f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0 and run.stderr.strip() == "[]", run.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["status", "--help"]])
def test_only_the_command_that_is_called_is_imported(arguments):
    code = f"import sys; sys.argv = ['gmi-drl', *{arguments!r}]\nfrom gmi_drl.cli import main\ntry: main()\nfinally: "
    code += "print([name for name in sys.modules if name.startswith('gmi_drl')], file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "gmi_drl.cli.output" in run.stderr and "gmi_drl.cli.train.command" not in run.stderr
    assert ("gmi_drl.cli.status" in run.stderr) == ("status" in arguments)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["tarin"], 2, "No such command"),
        (["train", "--iterations", "0"], 2, "iterations"),
        (["train", "--task", "elephant"], 2, "elephant"),
        (["train", "missing.yaml"], 2, "missing.yaml: no such file"),
        (["train", "antt"], 2, "antt: no such file, and there is no task 'antt'; did you mean 'ant'?"),
        (["train", "folder/missing"], 2, "folder/missing: no such file"),
        (["train", 'several:ant{"units": [1.5]}'], 2, "several:ant names no two tasks"),
        (["train", "gymnasium:ALE/Nope-v5"], 2, "gymnasium has no 'ALE/Nope-v5'"),
        (["train", "ant", "--num-env", "1", "--set", "learner.horizon=2"], 2, "a GMI learns from 2 transitions"),
        (["train", "ant", "--task", "humanoid"], 2, "ant and --task humanoid both name a task"),
        (["status", "--runs-dir", "nowhere"], 2, "--runs-dir nowhere: no such folder"),
        (["top", "--once", "--runs-dir", "nowhere"], 2, "--runs-dir nowhere: no such folder"),
        (["train", "/dev/null"], 2, "/dev/null: expected `key: value` lines, found nothing"),
        (["train", "--set", "learner.gama=1"], 2, "did you mean 'gamma'"),
        (["train", "--gmis-per-gpu", "5000"], 3, "5000 GMIs on cpu 0 need 5000 cores"),
        (["train", "--num-env", "1", "--set", "learner.horizon=2"], 2, "a GMI learns from 2 transitions"),
        (["train", "--resume", "nowhere"], 2, "nowhere is not a run folder: there is no such folder"),
        (["train", "--run-dir", "/dev/null/run"], 4, "cannot be written"),
        (["train", "--resume", "x", "--run-dir", "y"], 2, "cannot be given together"),
        (["bench", "nothing"], 2, "(gmi-drl bench list)"),
        (["plan", "--node", "missing.yaml"], 2, "missing.yaml: no such file"),
        (["plan", "-o", "/dev/null/layout.yaml"], 2, "the folder /dev/null does not exist"),
        (["plan", "-o", ""], 2, "is a folder"),
        (["plan", "--num-env", "many"], 2, "many"),
        (["plan", "--num-env", "1000000000000"], 2, "1048576"),
        (["train", "--seed", "99999999999"], 2, "--seed"),
        (["train", "--set", "learner.gamma=2024-99-99"], 2, "learner.gamma"),
        (["status", "nowhere"], 2, "nowhere is not a run folder: there is no such folder"),
    ],
)
def test_wrong_input_ends_in_a_message_and_a_code(command_line, arguments, code, message):
    returned, out, err = command_line(*arguments)
    assert returned == code and message in " ".join(err.split()) and out == ""


def test_what_nobody_expected_is_told_without_a_traceback(command_line, monkeypatch):
    monkeypatch.setattr("gmi_drl.gmi.inventory.this_node", lambda: 1 / 0)
    code, _, err = command_line("plan")
    assert code == 1 and "unexpected ZeroDivisionError" in err and "GMI_DRL_DEBUG=1" in err


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGHUP])
def test_the_exit_code_is_that_of_the_first_signal_whoever_is_impatient(command_line, monkeypatch, first):
    def interrupted(prog_name):
        try:
            signal.raise_signal(first)
        finally:
            signal.raise_signal(signal.SIGINT)

    before = {number: signal.getsignal(number) for number in ENDING}
    monkeypatch.setattr("gmi_drl.cli.cli", interrupted)
    try:
        assert command_line("train")[0] == 128 + first
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


LATE = """
import atexit, os, signal, sys
from gmi_drl import cli
def interrupt():  # after what `main` does when the interpreter ends, as what is registered first comes last
    os.kill(os.getpid(), signal.SIGINT)
atexit.register(interrupt)
cli.cli = lambda prog_name: signal.raise_signal(signal.SIGTERM)
cli.main()
"""


def test_a_signal_while_the_interpreter_ends_changes_nothing():
    run = subprocess.run([sys.executable, "-c", LATE], env=environment(), capture_output=True, text=True, timeout=60)
    assert run.returncode == 128 + signal.SIGTERM and run.stderr == ""


CUT_OFF = """
import signal
from gmi_drl import cli
def cut_off(prog_name):
    try:
        signal.raise_signal(signal.SIGTERM)
    except SystemExit:
        raise ImportError("cannot load module more than once per process")
cli.cli = cut_off
cli.main()
"""


def test_a_signal_that_cuts_an_import_off_ends_with_its_code_whatever_the_import_makes_of_it():
    run = subprocess.run([sys.executable, "-c", CUT_OFF], env=environment(), capture_output=True, text=True, timeout=60)
    assert run.returncode == 128 + signal.SIGTERM and run.stderr == ""


def test_every_option_has_an_environment_variable(command_line, monkeypatch):
    monkeypatch.setenv("GMI_DRL_PLAN_NUM_ENV", "33")
    monkeypatch.setenv("GMI_DRL_PLAN_GMIS_PER_GPU", "1")
    monkeypatch.setenv("GMI_DRL_PLAN_BUDGET", "0")
    code, out, _ = command_line("plan")
    assert code == 0 and "33 environments" in out
