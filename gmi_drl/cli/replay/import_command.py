"""`gmi-drl replay import`."""

from pathlib import Path

import rich_click as click

from gmi_drl.cli.output import say

SHOWN = 20
"""Episodes with mistakes that are named at most."""


@click.command("import")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--into", required=True, type=click.Path(path_type=Path), help="The folder to write, e.g. hopper.replay.")
@click.option("--skip-broken", is_flag=True, help="Leave out episodes with mistakes, and count them.")
def import_(sources: tuple[Path, ...], into: Path, skip_broken: bool) -> None:
    """Import the episodes of each SOURCE into a folder, to learn from them.

    A SOURCE is a folder that `gmi-drl serve --experience` wrote, a folder or a file of Minari, or a file of D4RL (HDF5
    needs the extra [offline]).
    """
    from gmi_drl.replay.episodes import EpisodeSet
    from gmi_drl.replay.importing.episodes import import_episodes
    from gmi_drl.replay.importing.sources import episodes_in

    readers = [episodes_in(source) for source in sources]  # each source is there before the first one is read
    done = import_episodes((episode for reader in readers for episode in reader), into, skip_broken=skip_broken)
    if done.begins_anew:
        say(f"An earlier import into {into} was killed: this one began anew")
    for mistake in done.skipped[:SHOWN]:
        say(f"Left out: {mistake}")
    if done.skipped:
        say(f"{len(done.skipped)} episodes were left out")
    returns = EpisodeSet(into).returns
    mean, least, most = returns.mean().item(), returns.min().item(), returns.max().item()
    told = f"{done.episodes} episodes of {done.steps} steps, mean return {mean:.1f} ({least:.1f} to {most:.1f})"
    say(f"Wrote {into}: {told}")
