"""How results are shown: `--format table` for people, `--format json` alone on stdout for programs."""

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import rich_click as click
from rich.console import Console

PLAIN_WIDTH = 120

Function = TypeVar("Function", bound=Callable[..., Any])


def format_option(function: Function) -> Function:
    """`--format table|json`."""
    kinds = click.Choice(["table", "json"])
    return click.option("--format", type=kinds, default="table", help="For people or for programs.")(function)


def simulator_option(function: Function) -> Function:
    """`--simulator-python`: an environment variable that GMIs inherit."""

    def remember(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
        if path is not None:
            os.environ["GMI_DRL_SIMULATOR_PYTHON"] = os.path.abspath(path)

    return click.option(
        "--simulator-python",
        type=click.Path(exists=True, dir_okay=False, executable=True),
        expose_value=False,
        callback=remember,
        help="The interpreter that has Isaac Gym, for isaacgym:TASK.  [default: $GMI_DRL_SIMULATOR_PYTHON]",
    )(function)


def say(message: str) -> None:
    """Tell people something on stderr. A terminal that is gone is no error."""
    with suppress(OSError):
        click.echo(message, err=True)


def console() -> Console:
    """Standard output for people; plain text where it is not a terminal."""
    return Console(highlight=False, width=None if sys.stdout and sys.stdout.isatty() else PLAIN_WIDTH)


def print_json(schema: str, document: dict[str, Any]) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps({"schema": f"gmi-drl/{schema}/1", **document}, indent=2))
