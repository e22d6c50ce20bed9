"""`gmi-drl replay`: servers of experience replay."""

import rich_click as click

from gmi_drl.cli.replay.calls import checkpoint, info
from gmi_drl.cli.replay.serve import serve


@click.group()
def replay() -> None:
    """Serve experience to other processes, and ask servers how they are.

    `gmi-drl replay serve --help` and so on have the options of each.
    """


for command in (serve, info, checkpoint):
    replay.add_command(command)
