"""`gmi-drl replay info` and `gmi-drl replay checkpoint`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click

from gmi_drl.cli.options import format_option
from gmi_drl.cli.output import print_json
from gmi_drl.cli.replay.show import TOKEN_VARIABLE, look, print_servers
from gmi_drl.errors import UsageError
from gmi_drl.units import quoted

Function = TypeVar("Function", bound=Callable[..., Any])


def token_option(function: Function) -> Function:
    """Add `--token-file`; see `token_of`."""
    words = f"A file with the token of the servers, that only its owner can read.  [default: ${TOKEN_VARIABLE}]"
    option = click.option("--token-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help=words)
    return option(function)


def token_of(file: Path | None) -> str | None:
    """The token in a file, or in the variable; None if there is neither.

    Raises:
        UsageError: if others can read the file, or it has no token.
    """
    import os

    if file is None:
        token = os.environ.get(TOKEN_VARIABLE)
    elif file.stat().st_mode & 0o077:
        raise UsageError(f"{file} can be read by others: chmod 600 {quoted(file)}")
    else:
        token = file.read_text(encoding="ascii", errors="replace").strip()
    if token is not None and (len(token) != 32 or not token.isascii()):
        raise UsageError("a token has 32 letters of ASCII: head -c 16 /dev/urandom | xxd -p > FILE makes one")
    return token


@click.command()
@click.argument("addresses", metavar="ADDRESS...", nargs=-1, required=True)
@token_option
@format_option
def info(addresses: tuple[str, ...], token_file: Path | None, format: str) -> None:
    """Show the tables of the servers at ADDRESS (HOST:PORT): items, counts, rates, and who waits for what."""
    servers = look(addresses, token_of(token_file))
    if format == "json":
        print_json("replay-info", {"servers": servers})
    else:
        print_servers(servers)


@click.command()
@click.argument("addresses", metavar="ADDRESS...", nargs=-1, required=True)
@click.option("--step", type=click.IntRange(min=0), required=True, help="The trainer's step, which names the folder.")
@token_option
def checkpoint(addresses: tuple[str, ...], step: int, token_file: Path | None) -> None:
    """Let the servers at ADDRESS (HOST:PORT) write a checkpoint each. Prints the folders when all is on the disks."""
    from gmi_drl.replay.client.client import Client

    with Client(addresses, token_of(token_file)) as client:
        for folder in client.checkpoint(step):
            click.echo(folder)
