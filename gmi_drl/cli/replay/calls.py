"""`gmi-drl replay info` and `gmi-drl replay checkpoint`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click

from gmi_drl.cli.options import format_option
from gmi_drl.cli.output import console, plain_table, print_json, say
from gmi_drl.errors import UsageError

Function = TypeVar("Function", bound=Callable[..., Any])

TOKEN_VARIABLE = "GMI_DRL_REPLAY_TOKEN"


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
        raise UsageError(f"{file} can be read by others: chmod 600 {file}")
    else:
        token = file.read_text().strip()
    if token is not None and (len(token) != 32 or not token.isascii()):
        raise UsageError("a token has 32 letters of ASCII: head -c 16 /dev/urandom | xxd -p > FILE makes one")
    return token


@click.command()
@click.argument("addresses", metavar="ADDRESS...", nargs=-1, required=True)
@token_option
@format_option
def info(addresses: tuple[str, ...], token_file: Path | None, format: str) -> None:
    """Show the tables of the servers at ADDRESS (HOST:PORT): items, counts, and who waits for what."""
    from gmi_drl.replay.client.client import Client

    with Client(addresses, token_of(token_file)) as client:
        found = client.info()
    if format == "json":
        print_json("replay-info", {"servers": dict(zip(addresses, found, strict=True))})
        return
    table = plain_table("server", "table", "items", "inserts", "samples", "waiting")
    for address, server in zip(addresses, found, strict=True):
        for name, one in server["tables"].items():
            waiting = one["waiting_inserts"] + one["waiting_samples"] + one["waiting_blocks"]
            items = f"{one['items']:,} of {one['max_size']:,}"
            table.add_row(address, name, items, f"{one['inserts']:,}", f"{one['samples']:,}", str(waiting))
    console().print(table)
    for server in found:
        for name, one in server["tables"].items():
            if "why" in one:
                say(f"{name}: {one['why']}")


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
