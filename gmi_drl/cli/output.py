"""How results are shown: `--format table` for people, `--format json` alone on stdout for programs."""

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

CLOSER = 9
"""Columns from which on they stand closer."""

Function = TypeVar("Function", bound=Callable[..., Any])


def format_option(function: Function) -> Function:
    """`--format table|json`."""
    kinds = click.Choice(["table", "json"])
    return click.option("--format", type=kinds, default="table", help="For people or for programs.")(function)


def simulator_option(function: Function) -> Function:
    """`--simulator-python`; see `use_simulator`."""
    return click.option(
        "--simulator-python",
        type=click.Path(exists=True, dir_okay=False, executable=True),
        help=f"The interpreter that has Isaac Gym, for isaacgym:TASK.  [default: ${SIMULATOR_PYTHON}]",
    )(function)


def use_simulator(python: str | None, task: str, *, is_here: bool = True) -> None:
    """Take the interpreter of `--simulator-python`, if it is given, here and in GMIs: they inherit the variable.

    Raises:
        UsageError: if the task runs in no other interpreter, or the GMIs are not started by this machine.
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
    """`--env-arg`: becomes a part of the task's name, see `task_names.with_arguments`."""
    words = (
        "What the constructor of the environments of --task is told (gymnasium:, envpool:), such as "
        "urdf_path=/path/to/robot.urdf; a relative path is taken from the folder in which each command, and each node, "
        "runs. Repeatable."
    )
    return click.option("--env-arg", multiple=True, metavar="KEY=VALUE", help=words)(function)


def backend_option(usual: str = PROCESS.name) -> Callable[[Function], Function]:
    """`--backend`; see `named_backend`. `usual` says in words what it is where nobody says."""
    names = ", ".join(entry.name for entry in BACKENDS.own)
    words = f"How devices are cut: {names}, or a package's.  [default: {usual}]"
    return click.option("--backend", metavar="NAME", help=words)


def apply_mig_option(command: Function) -> Function:
    """`--apply-mig`."""
    words = (
        "Make the MIG instances of a layout by mig or mig-ci (a LAYOUT file's, or with --backend mig equal ones),"
        " turning MIG mode on, and restore what was there afterwards (needs root)."
    )
    return click.option("--apply-mig", is_flag=True, help=words)(command)


def launcher_option(command: Function) -> Function:
    """`--launcher local|ray`."""
    words = (
        "Who starts the GMIs: this machine, or agents on a Ray cluster: that of RAY_ADDRESS, else the one that runs"
        " here, else a new one."
    )
    return click.option("--launcher", type=click.Choice(["local", "ray"]), default="local", help=words)(command)


def named_backend(name: str | None) -> str:
    """What `--backend` says, or the usual one.

    Raises:
        UsageError: if there is none of this name.
    """
    return BACKENDS.find(name or PROCESS.name).name


def say(message: str) -> None:
    """Tell people something on stderr. A terminal that is gone is no error."""
    with suppress(OSError):
        click.echo(message, err=True)


def tell(error: BaseException) -> int:
    """Say why a command fails. Returns its exit code. SystemExit has one and says nothing."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, GmiError):
        say(f"gmi-drl: {error}")
        return error.exit_code
    if isinstance(error, OSError):
        _close_output()
        if not isinstance(error, BrokenPipeError):  # with which the reader of our output has left
            say(f"gmi-drl: {error.filename or 'the output'}: {error.strerror or error}")
        return 1
    say(f"gmi-drl: unexpected {type(error).__name__}: {error}")
    say("  please report this; GMI_DRL_DEBUG=1 shows where it happened")
    return 1


def _close_output() -> None:
    """Drop what is still buffered and cannot be written, or the interpreter complains at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def console() -> Console:
    """Standard output for people; plain text where it is not a terminal."""
    return Console(highlight=False, width=None if sys.stdout and sys.stdout.isatty() else PLAIN_WIDTH)


def plain_table(*titles: str) -> "Table":
    """A table without lines in which nothing is cut: what is too wide for the terminal goes on below."""
    from rich.table import Column, Table

    columns = [Column(title, overflow="fold") for title in titles]
    return Table(*columns, box=None, padding=(0, 2 if len(titles) < CLOSER else 1, 0, 0))


def print_json(schema: str, document: dict[str, Any]) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps({"schema": f"gmi-drl/{schema}/1", **document}, indent=2))


def require_folder(path: Path) -> None:
    """Refuse a result that cannot be written before it is measured."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent} to write it to: make it first")


def write_file(path: Path, content: str) -> None:
    """Write a result where the user asked for it."""
    from gmi_drl.files import write_atomically

    try:
        write_atomically(path, content)
    except OSError as error:
        raise MachineError(f"{path} cannot be written: {error.strerror}") from None
