"""Options that commands share, messages on stderr, and results on stdout as tables or as one JSON document."""

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click
from rich.console import Console

from gmi_drl.config.task_names import OF_OTHER_PYTHON, SIMULATOR_PYTHON
from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.layout.backends import BACKENDS, PROCESS

if TYPE_CHECKING:
    from rich.table import Table

PLAIN_WIDTH = 120

MANY_COLUMNS = 9
"""A table of this many columns or more has less space between them."""

Function = TypeVar("Function", bound=Callable[..., Any])


def format_option(function: Function) -> Function:
    """Add `--format table|json`."""
    kinds = click.Choice(["table", "json"])
    return click.option("--format", type=kinds, default="table", help="For people or for programs.")(function)


def simulator_option(function: Function) -> Function:
    """Add `--simulator-python`; see `use_simulator`."""
    return click.option(
        "--simulator-python",
        type=click.Path(exists=True, dir_okay=False, executable=True),
        help=f"The Python in which Isaac Gym is installed, for isaacgym:TASK.  [default: ${SIMULATOR_PYTHON}]",
    )(function)


def use_simulator(python: str | None, task: str, *, is_here: bool = True) -> None:
    """Set the variable that names the interpreter of `--simulator-python`, if given; GMIs inherit it.

    Raises:
        UsageError: if the task needs no other interpreter, or the GMIs start on other machines.
    """
    if python is None:
        return
    if task.partition(":")[0].lower() != OF_OTHER_PYTHON:
        named = f"not for {task}" if task else "and the layout names no task"
        raise UsageError(f"--simulator-python is for {OF_OTHER_PYTHON}:TASK, {named}: leave it out")
    if not is_here:
        remedy = f"set {SIMULATOR_PYTHON} on each of them, and here"
        raise UsageError(f"--simulator-python is for GMIs of this machine, not for nodes of a cluster: {remedy}")
    os.environ[SIMULATOR_PYTHON] = os.path.abspath(python)


def env_arg_option(function: Function) -> Function:
    """Add `--env-arg`, which becomes a part of the task's name: see `task_names.with_arguments`."""
    words = (
        "An argument for the constructor of the --task's environments (gymnasium:, envpool:), such as "
        "urdf_path=/path/to/robot.urdf. A relative path starts at the folder where the command, and each node, runs. "
        "Repeatable."
    )
    return click.option("--env-arg", multiple=True, metavar="KEY=VALUE", help=words)(function)


def algo_option(default: str = "ppo") -> Callable[[Function], Function]:
    """Add `--algo`. `default` describes the default."""
    words = f"The algorithm: ppo (ours), a3c, rsl_rl, or one of another package.  [default: {default}]"
    return click.option("--algo", metavar="NAME", help=words)


def backend_option(usual: str = PROCESS.name) -> Callable[[Function], Function]:
    """Add `--backend`; see `named_backend`. `usual` describes the default."""
    names = ", ".join(entry.name for entry in BACKENDS.own)
    words = f"What cuts devices into GMIs: {names}, or one of another package.  [default: {usual}]"
    return click.option("--backend", metavar="NAME", help=words)


def apply_mig_option(command: Function) -> Function:
    """Add `--apply-mig`."""
    words = (
        "Create the MIG instances of a layout with the backend mig or mig-ci (without a LAYOUT file equal ones), and"
        " turn MIG mode on. Afterwards restore what was there. Needs root."
    )
    return click.option("--apply-mig", is_flag=True, help=words)(command)


def launcher_option(command: Function) -> Function:
    """Add `--launcher local|ray`."""
    words = (
        "Start the GMIs on this machine, or on the nodes of a Ray cluster: that of RAY_ADDRESS, else one that runs"
        " here, else a new one."
    )
    return click.option("--launcher", type=click.Choice(["local", "ray"]), default="local", help=words)(command)


def named_backend(name: str | None) -> str:
    """The name of the backend of `--backend`, or of the default one.

    Raises:
        UsageError: if no backend has this name.
    """
    return BACKENDS.find(name or PROCESS.name).name


def say(message: str) -> None:
    """Print a message on stderr. A terminal that is gone is no error."""
    with suppress(OSError):
        click.echo(message, err=True)


def report_error(error: BaseException) -> int:
    """Print why a command fails, and return its exit code. Nothing is printed for SystemExit, which has a code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, GmiError):
        say(f"gmi-drl: {error}")
        return error.exit_code
    if isinstance(error, OSError):
        _close_output()
        if not isinstance(error, BrokenPipeError):  # raised when the reader of our output has closed it
            say(f"gmi-drl: {error.filename or 'the output'}: {error.strerror or error}")
        return 1
    say(f"gmi-drl: unexpected {type(error).__name__}: {error}")
    say("  please report this; GMI_DRL_DEBUG=1 shows where it happened")
    return 1


def _close_output() -> None:
    """Drop buffered output that cannot be written; else the interpreter complains when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def console() -> Console:
    """A console on stdout; 120 columns of plain text where that is not a terminal."""
    return Console(highlight=False, width=None if sys.stdout and sys.stdout.isatty() else PLAIN_WIDTH)


def plain_table(*titles: str) -> "Table":
    """A table without lines. Text that is too wide is wrapped, never cut."""
    from rich.table import Column, Table

    columns = [Column(title, overflow="fold") for title in titles]
    return Table(*columns, box=None, padding=(0, 2 if len(titles) < MANY_COLUMNS else 1, 0, 0))


def print_json(schema: str, document: dict[str, Any]) -> None:
    """Print a JSON document on stdout, with the name of its schema."""
    click.echo(json.dumps({"schema": f"gmi-drl/{schema}/1", **document}, indent=2))


def require_folder(path: Path) -> None:
    """Refuse a file that cannot be written, before its content is measured.

    Raises:
        UsageError: if it is a folder, or its folder does not exist.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: the folder {path.parent} does not exist: make it first")


def write_file(path: Path, content: str) -> None:
    """Write a result to the file that the user named.

    Raises:
        MachineError: if that fails.
    """
    from gmi_drl.files import write_atomically

    try:
        write_atomically(path, content)
    except OSError as error:
        raise MachineError(f"{path} cannot be written: {error.strerror}") from None
