"""The command line. It imports click and rich; a command is imported when it is called, torch and pydantic later."""

import atexit
import os
import signal
import sys
import warnings
from types import FrameType
from typing import NoReturn, TextIO

import rich_click as click

from gmi_drl import __version__
from gmi_drl.cli.commands import Commands, summaries
from gmi_drl.cli.output import report_error, say
from gmi_drl.errors import GmiError, GmiWarning
from gmi_drl.processes.signals import ENDING

SETTINGS = {"auto_envvar_prefix": "GMI_DRL", "show_default": True, "help_option_names": ["-h", "--help"]}
DEFAULT_SHOWWARNING = warnings.showwarning
_received: list[int] = []
"""The signal that ended the program, if one has."""


@click.group(cls=Commands, commands=summaries(), context_settings=SETTINGS)
@click.version_option(__version__, prog_name="gmi-drl")
def cli() -> None:
    """Cut each GPU (or CPU) into GMIs and train robot policies on them.

    Every option can also be given as an environment variable, e.g. GMI_DRL_TRAIN_SEED=3 for `train --seed 3`.
    """


def main() -> None:
    """Run the command line. An error ends in a message and an exit code, never in a traceback."""
    _received.clear()
    for number in ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores it
            signal.signal(number, _exit_by_signal)
    atexit.register(_ignore_signals)
    warnings.showwarning = _show_warning
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    try:
        cli(prog_name="gmi-drl")
    except Exception as error:
        if _received:  # numpy turns an exit during its import into an ImportError
            sys.exit(128 + _received[0])
        if os.environ.get("GMI_DRL_DEBUG") and not isinstance(error, GmiError | OSError):
            raise
        sys.exit(report_error(error))


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of ours in one line, without the line of code that raised it."""
    if issubclass(category, GmiWarning):
        say(f"gmi-drl: warning: {message}")
    else:
        DEFAULT_SHOWWARNING(message, category, filename, lineno, file, line)


def _ignore_signals() -> None:
    """Ignore signals while the interpreter ends, which takes a while: the exit code is decided by then."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def _exit_by_signal(number: int, frame: FrameType | None) -> NoReturn:
    """Exit on Ctrl-C or SIGTERM; `with` blocks clean up. Trainings replace this handler, as they save a checkpoint.

    A second signal cuts the clean-up short. The exit code is that of the first.
    """
    _received.append(number)
    for other in ENDING:
        if signal.getsignal(other) is _exit_by_signal:
            signal.signal(other, lambda *_: sys.exit(128 + number))
    raise SystemExit(128 + number)
