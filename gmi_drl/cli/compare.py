"""`gmi-drl compare`."""

from dataclasses import asdict
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import rich_click as click

from gmi_drl.cli.options import format_option
from gmi_drl.cli.output import console, plain_table, print_json
from gmi_drl.errors import UsageError

if TYPE_CHECKING:
    from gmi_drl.results.comparison import Estimate
    from gmi_drl.run.run_data import RunData

MOST_GROUPS = len(ascii_uppercase)
SHOWN_DIFFERENCES = 30


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@format_option
def compare(runs: tuple[Path, ...], format: str) -> None:
    """Compare RUNs: what differs in their settings, their curves, and their final returns over seeds.

    Runs that differ by their seeds alone count as one configuration. The final return of a run is the mean over the
    last tenth of its rows, of its evaluations if it has any.
    """
    from gmi_drl.run.run_data import differences, groups_of, read_run

    if len({run.resolve() for run in runs}) < len(runs):
        raise UsageError("a run is given twice: its seed would count twice")
    groups = groups_of([read_run(run) for run in runs])
    if len(groups) > MOST_GROUPS:
        raise UsageError(f"{len(groups)} configurations: at most {MOST_GROUPS} can be compared")
    named = dict(zip(ascii_uppercase, groups, strict=False))
    different = differences(groups)
    if format == "json":
        print_json("compare", {"configurations": _document(named, different)})
    else:
        _print(named, different)


def _document(named: dict[str, list["RunData"]], different: dict[str, list[Any]]) -> list[dict[str, Any]]:
    from gmi_drl.results.comparison import final_return, steps_per_second

    return [
        {
            "name": name,
            "runs": [str(run.path) for run in group],
            "seeds": [run.config.seed for run in group],
            "settings": {key: values[number] for key, values in different.items()},
            "final_return": _fields(final_return(group)),
            "steps_per_second": _fields(steps_per_second(group)),
        }
        for number, (name, group) in enumerate(named.items())
    ]


def _fields(estimate: "Estimate | None") -> dict[str, Any] | None:
    return None if estimate is None else asdict(estimate)


def _print(named: dict[str, list["RunData"]], different: dict[str, list[Any]]) -> None:
    """Print runs, differences, curves and the table."""
    from gmi_drl.results.comparison import ENOUGH_FOR_INTERVAL, curve, final_return, steps_per_second
    from gmi_drl.results.text_plot import text_plot
    from gmi_drl.units import human_count

    out = console()
    for name, group in named.items():
        out.print(f"{name}  {', '.join(str(run.path) for run in group)}", markup=False)
    if different:
        out.print()
        table = plain_table("differs", *named)
        for setting, values in list(different.items())[:SHOWN_DIFFERENCES]:
            table.add_row(setting, *("-" if value is None else str(value) for value in values))
        out.print(table, markup=False)
        if len(different) > SHOWN_DIFFERENCES:
            out.print(f"... and {len(different) - SHOWN_DIFFERENCES} more: --format json shows all")
    if lines := text_plot({name: curve(group) for name, group in named.items()}, out.width, "steps"):
        out.print("\nreturn", *lines, sep="\n", markup=False)
    out.print()
    table = plain_table("", "seeds", "final return", "95 % interval", "steps/s")
    for name, group in named.items():
        final, speed = final_return(group), steps_per_second(group)
        table.add_row(name, str(len(group)), *_cells(final), human_count(speed.value) if speed else "-")
    out.print(table, markup=False)
    if any(len(group) < ENOUGH_FOR_INTERVAL for group in named.values()):
        out.print(f"An interval needs {ENOUGH_FOR_INTERVAL} seeds of a configuration: train more with --seed")


def _cells(estimate: "Estimate | None") -> tuple[str, str]:
    if estimate is None:
        return "-", "no episode has ended"
    ends = "-" if estimate.low is None else f"{estimate.low:.1f} to {estimate.high:.1f}"
    return f"{estimate.value:.1f} ({estimate.statistic})", ends
