"""Messages on stderr, and results on stdout as tables or as one JSON document."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.console import Console

from gmi_drl.errors import GmiError, MachineError, UsageError

if TYPE_CHECKING:
    from rich.table import Table

PLAIN_WIDTH = 120

MANY_COLUMNS = 9
"""A table of this many columns or more has less space between them."""


_spinning: list[Console] = []
"""The console of the spinner that is shown."""


def say(message: str) -> None:
    """Print a message on stderr, above a spinner that is shown. A terminal that is gone is no error."""
    with suppress(OSError):
        if _spinning:
            _spinning[-1].print(message, markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(message, err=True)


def report_error(error: BaseException) -> int:
    """Print why a command fails, and return its exit code. Nothing is printed for SystemExit, which has a code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, GmiError):
        say(f"gmi-drl: {error}")
        for note in getattr(error, "__notes__", ()):
            say(f"  {note}")
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


@contextmanager
def starting(*, quiet: bool) -> Iterator[None]:
    """Show `starting…` on a terminal, until the end of the `with` block erases it."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    with console.status("starting…"):
        _spinning.append(console)
        try:
            yield
        finally:
            _spinning.remove(console)
