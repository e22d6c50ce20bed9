"""`gmi-drl top`."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from gmi_drl.cli.options import format_option
from gmi_drl.cli.output import console, plain_table, print_json
from gmi_drl.cli.status import run_folders
from gmi_drl.errors import UsageError
from gmi_drl.run import RUNS

if TYPE_CHECKING:
    from rich.console import Console, Group

REFRESH_S = 2.0
WIDE = 120
"""Columns from which the shares of the phases are shown."""


@click.command()
@click.option("--runs-dir", type=click.Path(path_type=Path), default=RUNS, help="The folder that holds the runs.")
@click.option("--once", is_flag=True, help="Print once, and end.")
@click.option("--all", "every", is_flag=True, help="Show runs that have ended, too.")
@format_option
def top(runs_dir: Path, once: bool, every: bool, format: str) -> None:
    """Show the runs in the runs folder that train, again and again, until Ctrl-C: speed, time left, what holds them up.

    Those of other machines, in a folder that they share, are shown, too; one that was killed there stays until it is
    resumed.

    Where the output is no terminal, such as a file or a pipe, each table follows the one before.
    """
    if format == "json" and not once:
        raise UsageError("--format json prints one document: add --once")
    if runs_dir != RUNS and not runs_dir.is_dir():
        raise UsageError(f"--runs-dir {runs_dir}: no such folder")
    if once:
        rows = _rows(runs_dir, every)
        if format == "json":
            print_json("top", {"runs": rows})
        else:
            console().print(_view(rows, runs_dir, console().width))
        return
    _watch(console(), lambda width: _view(_rows(runs_dir, every), runs_dir, width))


def _watch(out: "Console", view: Callable[[int], "Group"]) -> None:
    """Show a view of so many columns again and again: on a terminal in place, elsewhere one below the other."""
    from rich.live import Live

    if not out.is_terminal:
        while True:
            out.print(view(out.width), "")
            time.sleep(REFRESH_S)
    with Live(console=out, auto_refresh=False, screen=True) as live:
        while True:
            live.update(view(out.width), refresh=True)
            time.sleep(REFRESH_S)


def _rows(runs_dir: Path, every: bool) -> list[dict[str, Any]]:
    """What is shown of each run, those of sweeps, too, newest first."""
    from gmi_drl.run.folder import RunFolder

    folders = [RunFolder(path) for path in reversed(run_folders(runs_dir))]
    states = [(folder, folder.read_state()["state"]) for folder in folders]
    return [_describe(folder, state) for folder, state in states if every or state == "running"]


def _describe(folder: Any, state: str) -> dict[str, Any]:
    from gmi_drl.run.metrics import tail
    from gmi_drl.run.verdict import RECENT, recent_shares, seconds_left, verdict

    rows = tail(folder.metrics_file, RECENT)
    last = rows[-1] if rows else {}
    try:
        iterations = folder.read_setup()[1].iterations
    except UsageError:  # it is being replaced, or broken: the state says more
        iterations = None
    shown = ("iteration", "env_steps", "steps_per_second", "return_mean", "learning_rate", "kl")
    return {
        "run": str(folder.path),
        "state": state,
        "iterations": iterations,
        **{name: last.get(name) for name in shown},
        "seconds_left": seconds_left(rows, iterations) if iterations and state == "running" else None,
        "shares": recent_shares(rows),
        "verdict": verdict(rows),
    }


def _view(rows: list[dict[str, Any]], runs_dir: Path, width: int) -> "Group":
    """The table, and a line below it for each run."""
    from rich.console import Group
    from rich.text import Text

    from gmi_drl.units import human_count, human_seconds

    if not rows:
        return Group(Text(f"No run trains in {runs_dir}: --all shows those that have ended"))
    phases = list(next((row["shares"] for row in rows if row["shares"]), {})) if width >= WIDE else []
    table = plain_table("run", "done", "left", "steps/s", "return", *phases)
    for row in rows:
        done = f"{row['iteration'] or 0}/{row['iterations'] or '?'}"
        left = row["state"] if row["seconds_left"] is None else human_seconds(row["seconds_left"])
        speed = "-" if row["steps_per_second"] is None else human_count(row["steps_per_second"])
        mean = "-" if row["return_mean"] is None else f"{row['return_mean']:.1f}"
        shares = [f"{row['shares'][name]:.0%}" if row["shares"] else "-" for name in phases]
        table.add_row(Text(row["run"], overflow="fold"), done, left, speed, mean, *shares)
    notes = [Text(f"{Path(row['run']).name}: {row['verdict']}", style="dim") for row in rows if row["verdict"]]
    return Group(table, *notes)
