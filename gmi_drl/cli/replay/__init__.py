"""`gmi-drl replay`: servers of experience replay, and episodes of other origin."""

import rich_click as click

from gmi_drl.cli.replay.calls import checkpoint, info
from gmi_drl.cli.replay.import_command import import_
from gmi_drl.cli.replay.serve import serve


@click.group()
def replay() -> None:
    """Serve experience to other processes, ask servers how they are, and import episodes.

    `gmi-drl replay serve --help` and so on have the options of each.
    """


for command in (serve, info, checkpoint, import_):
    replay.add_command(command)
