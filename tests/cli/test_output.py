import io
import time

from rich.console import Console

from gmi_drl.cli import output


def test_a_message_stands_on_a_line_of_its_own_while_a_spinner_is_shown(monkeypatch):
    seen = io.StringIO()
    monkeypatch.setattr(output, "Console", lambda stderr: Console(file=seen, force_terminal=True, width=40))
    with output.starting(quiet=False):
        time.sleep(0.3)  # it is drawn every 80 ms
        output.say("Resuming runs/[ant] " + "x" * 60)
    before, _, _ = seen.getvalue().partition("Resuming runs/[ant] " + "x" * 60 + "\n")
    assert before != seen.getvalue() and before.endswith("\x1b[2K"), "the line of the spinner is erased first"


def test_nothing_spins_where_there_is_no_terminal(capsys):
    with output.starting(quiet=False):
        output.say("Resuming")
    assert capsys.readouterr().err == "Resuming\n"
