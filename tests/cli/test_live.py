import io
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress

import pytest
from conftest import tiny_config, tiny_layout
from rich.console import Console
from rich.live import Live

from gmi_drl.cli import live
from gmi_drl.cli.live import TrainingView, plain_line
from gmi_drl.run.folder import RunFolder

ROW = {
    "iteration": 5,
    "env_steps": 123456,
    "steps_per_second": 23456.0,
    "return_mean": None,
    "episode_length_mean": 12.0,
    "bad_environments": 0.0,
    "gmis": {str(i): {"sim_s": 0.1, "act_s": 0.01, "learn_s": 0.2, "sync_s": 0.1 * i} for i in range(2)},
}


WHOLE = ROW | {"learning_rate": 1e-3}


def test_a_line_of_text():
    assert plain_line(ROW, 10) == "iteration 5/10  steps 123.5k  23.5k steps/s  return -  length 12.0"
    assert plain_line(ROW | {"bad_environments": 3.0}, 10).endswith("length 12.0  bad environments 3")


def test_a_terminal_sees_a_table_and_the_result_stays(tmp_path):
    """A real training on a pseudo-terminal of 24 lines."""
    arguments = ["train", "--num-env", "8", "--set", "learner.horizon=4", "--iterations", "3", "--gmis-per-gpu", "1"]
    code = f"import sys; sys.argv = ['gmi-drl', *{arguments!r}]; from gmi_drl.cli import main; main()"
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=follower, stderr=follower, cwd=tmp_path, env=env) as run:
        os.close(follower)
        seen = b""
        try:
            while chunk := os.read(leader, 4096):
                seen += chunk
        except OSError:  # the other end has closed
            pass
    os.close(leader)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode())
    assert run.returncode == 0 and "steps/s" in text and "simulate" in text and "Done: runs/ant-" in text


@pytest.mark.parametrize(("gmis", "more"), [(1, ""), (2, " (8 per GMI; the GMIs together learn from 64 steps per")])
def test_what_grows_with_the_number_of_gmis_is_said_in_all(tmp_path, capsys, gmis, more):
    TrainingView(tiny_layout(gmis), tiny_config(), RunFolder(tmp_path), quiet=True).announce()
    assert f"with {8 * gmis} environments in {tmp_path}{more}" in capsys.readouterr().err


def test_names_with_brackets_are_told_as_they_are(tmp_path, capsys):
    layout = tiny_layout().model_copy(update={"task": "here:Task[size=3]"})
    TrainingView(layout, tiny_config(), RunFolder(tmp_path / "[red]"), quiet=True).announce()
    said = capsys.readouterr().err
    assert "Training here:Task[size=3] on 2 GMIs" in said and f"in {tmp_path}/[red]" in said


def test_a_terminal_that_is_gone_prevents_no_start(tmp_path):
    """The reader of a pseudo-terminal has gone, so each write fails."""
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as gone:
        os.close(leader)
        view = TrainingView(tiny_layout(), tiny_config(), RunFolder(tmp_path), quiet=False)
        view.console = Console(file=gone, force_terminal=True)
        view.live = Live(console=view.console, auto_refresh=False)
        with view:
            view.announce()
            view.warn("something")
        with suppress(OSError):
            gone.close()


def test_a_resized_terminal_is_cleared_before_the_next_row(tmp_path):
    layout = tiny_layout()
    view = TrainingView(layout, tiny_config(), RunFolder(tmp_path), quiet=False)
    seen = io.StringIO()
    view.console = Console(file=seen, force_terminal=True, width=100, height=30)
    view.live, view._size = Live(console=view.console, auto_refresh=False), view.console.size
    with view:
        view.announce()
        view.show(WHOLE)
        assert "\x1b[2J" not in seen.getvalue()
        view.console.width, view.shown = 80, 0.0
        view.show(WHOLE)
        cleared = seen.getvalue().partition("\x1b[2J")[2]
    assert "Training ant on" in cleared and "5 of 4" in cleared


class Load:
    """As `CoreLoad` on cores of which others take a share."""

    share = 0.4

    def __init__(self, cores):
        assert cores

    def others(self):
        return self.share

    def takers(self):
        return "make (process 7 of ann) 80%"


def test_other_programs_are_told_while_they_take_much(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(live, "CoreLoad", Load)
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    others = live._Others()
    assert others.line() == "", "nothing is known yet"
    now[0] += 1
    assert others.line() == "", "it looks every ten seconds"
    now[0] += 10
    said = "other programs take 40% of this machine's cores: make (process 7 of ann) 80%"
    assert others.line() == said
    monkeypatch.setattr(Load, "share", 0.05)
    assert others.line() == said
    now[0] += 10
    assert others.line() == ""
