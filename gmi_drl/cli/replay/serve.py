"""`gmi-drl replay serve`."""

from pathlib import Path

import rich_click as click

from gmi_drl.cli.options import FiniteRange
from gmi_drl.cli.replay.calls import token_of, token_option

YEAR_S = 365 * 24 * 3600


@click.command()
@click.argument("tables", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of the first server; 0 for any free ones.")
@click.option("--host", default="127.0.0.1", help="Address to listen at. Any but this machine's own needs a token.")
@click.option("--shards", type=click.IntRange(1, 64), default=1, help="Servers, each a process with all the tables.")
@click.option("--checkpoints", type=click.Path(path_type=Path, file_okay=False), help="The folder for checkpoints.")
@click.option("--checkpoint-every", type=FiniteRange(1, YEAR_S), metavar="S", help="Seconds between checkpoints.")
@click.option(
    "--restore",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Begin with a checkpoint: the folder of a step.",
)
@token_option
def serve(
    tables: Path,
    port: int,
    host: str,
    shards: int,
    checkpoints: Path | None,
    checkpoint_every: float | None,
    restore: Path | None,
    token_file: Path | None,
) -> None:
    """Serve the tables that a TABLES file names, until Ctrl-C. Prints an address for each server.

    With --checkpoints the end writes one, too: FOLDER/last.
    """
    from gmi_drl.launch.replay import ReplayOptions, serve_tables

    options = ReplayOptions(
        str(tables),
        host,
        port,
        str(checkpoints) if checkpoints else None,
        checkpoint_every,
        str(restore) if restore else None,
        shards,
    )
    serve_tables(options, token_of(token_file), click.echo)
