import os
import subprocess
import threading
from contextlib import contextmanager, nullcontext

import psutil
import pytest

from gmi_drl.cli import local_task
from gmi_drl.errors import GmiWarning, UsageError
from gmi_drl.tasks import make


@contextmanager
def played(monkeypatch, close):
    """Worlds that have started a program, and close so; the program, which is gone at the end."""
    programs = []

    def make_one(name, **sizes):
        task = make("ball_balance", **sizes)
        task.close = close
        programs.append(psutil.Popen(["sleep", "600"]))
        return task

    monkeypatch.setattr("gmi_drl.tasks.make", make_one)
    with local_task.open_task("gymnasium:Lion-v0", num_env=2, seed=0) as task:
        yield task
    assert programs[0].wait(60) == -9


def test_worlds_of_a_command_are_told_closed_and_leave_no_program(monkeypatch, capsys):
    closed, own = [], subprocess.Popen(["sleep", "600"])
    try:
        with played(monkeypatch, lambda: closed.append(True)) as task:
            assert task.num_env == 2 and not closed
        assert closed == [True] and own.poll() is None
    finally:
        own.kill()
        own.wait()
    assert capsys.readouterr().err == "making gymnasium:Lion-v0...\n"


def test_failing_close_of_environments_warns(monkeypatch):
    def close():
        raise OSError("the recorder is gone")

    with (
        pytest.warns(GmiWarning, match="^ball_balance failed to close: OSError: the recorder is gone$"),
        played(monkeypatch, close),
    ):
        pass


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (None, 0, ""),
        (SystemExit(130), 130, ""),
        (UsageError("step 3 of what?"), 2, "gmi-drl: step 3 of what?\n"),
        (ZeroDivisionError("by 0"), 1, "gmi-drl: unexpected ZeroDivisionError: by 0\n  please report this"),
    ],
)
def test_worlds_that_hang_when_they_are_closed_end_with_the_process(monkeypatch, capsys, error, code, message):
    """As the command would have ended without them."""
    codes, has_ended = [], threading.Event()
    monkeypatch.setattr(local_task, "CLOSE_S", 0.1)
    monkeypatch.setattr(os, "_exit", lambda code: (codes.append(code), has_ended.set()))
    raised = pytest.raises(type(error)) if error else nullcontext()
    with raised, played(monkeypatch, lambda: has_ended.wait(60)):
        if error:
            raise error
    assert codes == [code]
    warning, _, said = capsys.readouterr().err.partition("this process and what it started are killed\n")
    assert warning.endswith("warning: ball_balance has not closed within 0.1 s: ") and said.startswith(message)
