"""The command line. Importing this costs click and rich; torch and pydantic come with the command that needs them."""

import atexit
import os
import signal
import sys
import warnings
from types import FrameType
from typing import NoReturn, TextIO

import rich_click as click

from gmi_drl import __version__
from gmi_drl.cli import bench, play, profile, serve, status
from gmi_drl.cli.doctor.command import doctor
from gmi_drl.cli.output import say, tell
from gmi_drl.cli.plan.command import plan
from gmi_drl.cli.train.command import train
from gmi_drl.errors import GmiError, GmiWarning
from gmi_drl.process_signals import ENDING

SETTINGS = {"auto_envvar_prefix": "GMI_DRL", "show_default": True, "help_option_names": ["-h", "--help"]}
OTHERS = warnings.showwarning
_received: list[int] = []
"""The signal that ended the program, if one has."""


@click.group(context_settings=SETTINGS)
@click.version_option(__version__, prog_name="gmi-drl")
def cli() -> None:
    """Cut each GPU (or CPU) into GMIs and train robot policies on them.

    Every option can also be given as an environment variable, e.g. GMI_DRL_TRAIN_SEED=3 for `train --seed 3`.
    """


COMMANDS = (
    plan,
    profile.profile,
    train,
    play.play,
    serve.serve,
    status.status,
    doctor,
    bench.bench,
)
for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Run the command line; what is wrong ends in a message and an exit code, never in a traceback."""
    _received.clear()
    for number in ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as by `nohup`
            signal.signal(number, _leave)
    atexit.register(_ignore_signals)
    warnings.showwarning = _show_warning
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    try:
        cli(prog_name="gmi-drl")
    except Exception as error:
        if _received:  # a library whose import is cut off may turn the exit into an error of its own, as numpy does
            sys.exit(128 + _received[0])
        if os.environ.get("GMI_DRL_DEBUG") and not isinstance(error, GmiError | OSError):
            raise
        sys.exit(tell(error))


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Ours are for people, who need no line of code."""
    if issubclass(category, GmiWarning):
        say(f"gmi-drl: warning: {message}")
    else:
        OTHERS(message, category, filename, lineno, file, line)


def _ignore_signals() -> None:
    """How this ends is known: while the interpreter ends, which takes a while, no signal gives another exit code."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Ctrl-C or SIGTERM while there is nothing to save; `with` blocks end what they began. Trainings catch it.

    A second one cuts that short; the exit code is that of the first.
    """
    _received.append(number)
    for other in ENDING:
        if signal.getsignal(other) is _leave:
            signal.signal(other, lambda *_: sys.exit(128 + number))
    raise SystemExit(128 + number)
