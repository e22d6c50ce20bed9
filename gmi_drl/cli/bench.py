"""`gmi-drl bench`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from gmi_drl.cli.options import FiniteRange, format_option
from gmi_drl.cli.output import console, plain_table, print_json, require_folder, say
from gmi_drl.errors import ComparisonFailedError, MachineError, UsageError

if TYPE_CHECKING:
    from gmi_drl.benchmarks.case import Case
    from gmi_drl.benchmarks.result import Result

GUARD_REPEATS = 3

LIST = "list"
"""In place of a CASE, means --list."""


@click.command()
@click.argument("case", metavar="[CASE]", required=False)
@click.option("--list", "listed", is_flag=True, help="Show the cases, and which of them this machine can run.")
@click.option(
    "--stale",
    is_flag=True,
    help="Show results whose code has changed since; exit with 6 if there are any.",
)
@click.option(
    "--guard",
    is_flag=True,
    help="Run small cases, all with a bound or CASE; exit with 6 below a bound.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    help=f"Rounds.  [default: the case's; {GUARD_REPEATS} for --guard]",
)
@click.option("--fail-below", type=FiniteRange(min=0), metavar="R", help="Exit with 6 if a ratio is below R.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the result to this JSON file, and a plot beside it as PNG.",
)
@format_option
def bench(
    case: str | None,
    listed: bool,
    stale: bool,
    guard: bool,
    repeats: int | None,
    fail_below: float | None,
    output: Path | None,
    format: str,
) -> None:
    """Measure a CASE: run what it compares in turn, and show the ratios.

    A ratio has a 95 % interval, or after fewer than five rounds its range. Without a CASE, or for
    `list`, the cases are listed.
    """
    from gmi_drl.benchmarks.cases import CASES, find_case

    listed, case = (True, None) if case == LIST else (listed, case)
    chosen = find_case(case) if case else None
    if stale:
        if chosen or listed or guard or repeats or fail_below is not None or output:
            raise UsageError("--stale looks at the results of the repository: leave out everything but --format")
        _stale(format)
    elif guard:
        if listed or fail_below is not None or output:
            raise UsageError("--guard has its own bounds and writes nothing: leave out --list, --fail-below and -o")
        _guard([chosen] if chosen else list(CASES.values()), repeats, format)
    elif chosen is None or listed:
        if repeats or fail_below is not None or output:
            raise UsageError("--repeats, --fail-below and -o are for one CASE: name it")
        _list([chosen] if chosen else list(CASES.values()), format)
    else:
        _measure(chosen, repeats, fail_below, output, format)


def _measure(case: "Case", repeats: int | None, fail_below: float | None, output: Path | None, format: str) -> None:
    """Measure one case at its full size, print the result, then write it."""
    if output is not None:
        require_folder(output)
        if output.suffix != ".json":
            raise UsageError(f"-o {output}: a result is a .json file, with its plot beside it as .png")
    result = _run(case, repeats, quick=False, judged=fail_below is not None)
    if format == "json":
        print_json("bench", result.document())
    else:
        _print(result)
    for path in _write(result, output) if output else []:
        say(f"Wrote {path}")
    if fail_below is not None:
        _fail_if_any(result.below(fail_below))


def _guard(cases: list["Case"], repeats: int | None, format: str) -> None:
    """Run every case that has a bound and that this machine can run.

    A result below its bound is a failure, unless other programs kept the cores busy meanwhile.
    """
    results: list[Result] = []
    skipped, unjudged, below, seconds = {}, {}, [], {}
    for case in cases:
        if case.guard is None:
            continue
        if obstacle := case.obstacle():
            skipped[case.name] = obstacle
            say(f"{case.name}: left out: {obstacle}")
            continue
        began = time.monotonic()
        result = _run(case, repeats, quick=True)
        results.append(result)
        seconds[case.name] = round(time.monotonic() - began, 1)
        fallen = result.below(case.guard) + (result.below_floor(case.floor) if case.floor is not None else [])
        if fallen and result.machine.is_too_busy:
            unjudged[case.name] = f"other programs took {result.machine.busy:.0%} of the cores"
            say(f"{case.name}: below its bound, which is not counted: {unjudged[case.name]}")
        else:
            below += fallen
    if not results:
        if not skipped:
            raise UsageError(f"--guard: {', '.join(case.name for case in cases)} has no bound")
        raise MachineError("no case could be run: " + "; ".join(f"{name}: {why}" for name, why in skipped.items()))
    if format == "json":
        told = {"skipped": skipped, "unjudged": unjudged, "below": below, "seconds": seconds}
        print_json("guard", {"results": [result.document() for result in results], **told})
    else:
        for result in results:
            _print(result)
        say(f"Seconds of each case: {', '.join(f'{name} {spent:.0f}' for name, spent in seconds.items())}")
        say(f"All {len(results)} cases: {sum(seconds.values()):.0f} s")
    _fail_if_any(below)


def _stale(format: str) -> None:
    """List the results of the repository that were measured with other code than it has now."""
    from gmi_drl.benchmarks.report import load_results
    from gmi_drl.benchmarks.stale import ROOT, stale

    folder = ROOT / "benchmarks" / "results"
    if not folder.is_dir():
        raise MachineError(f"there is no {folder}: run it from a checkout of the repository")
    results = load_results(folder)
    reasons = stale(results)
    if format == "json":
        print_json("stale", {"results": len(results), "stale": reasons})
    else:
        say(f"{len(results) - len(reasons)} of {len(results)} results were measured with the code as it is")
    _fail_if_any([f"{name} is stale: {reason}" for name, reason in reasons.items()])


def _fail_if_any(below: list[str]) -> None:
    if below:
        raise ComparisonFailedError("\n  ".join(below))


def _run(case: "Case", repeats: int | None, *, quick: bool, judged: bool = False) -> "Result":
    """Measure a case, and print each sample as it comes."""
    from gmi_drl.benchmarks.runner import run_case
    from gmi_drl.units import human_value

    rounds = repeats or (GUARD_REPEATS if quick else case.repeats)
    say(f"{case.name}: {rounds} rounds; setting up")
    result = run_case(
        case,
        repeats=rounds,
        quick=quick,
        judged=judged,
        on_sample=lambda index, side, sample: say(
            f"{case.name}: round {index}/{rounds}  {side}  {human_value(sample.value, case.unit)}"
        ),
    )
    if result.machine.warning:
        say(f"gmi-drl: warning: {result.machine.warning}")
    return result


def _write(result: "Result", output: Path) -> list[Path]:
    """Write the result, and its plot if matplotlib is installed. Returns the files written."""
    from gmi_drl.benchmarks.plot import plot
    from gmi_drl.benchmarks.result import write_result

    write_result(result, output)
    try:
        plot(result, output.with_suffix(".png"))
    except ImportError:
        say("No plot without matplotlib: pip install 'gmi-drl[plots]'")
        return [output]
    return [output, output.with_suffix(".png")]


def _list(cases: list["Case"], format: str) -> None:
    rows: list[dict[str, Any]] = [
        {"case": case.name, "claim": case.claim, "guard": case.guard, "obstacle": case.obstacle()} for case in cases
    ]
    if format == "json":
        print_json("bench-list", {"cases": rows})
        return
    from rich.markup import escape

    table = plain_table("case", "guard", "what it measures")
    for row in rows:
        lacks = f"\n[yellow]not here: {escape(row['obstacle'])}[/yellow]" if row["obstacle"] else ""
        table.add_row(row["case"], f"{row['guard'] or '-'}", escape(row["claim"]) + lacks)
    console().print(table)
    console().print("Measure one with: gmi-drl bench CASE", markup=False)


def _print(result: "Result") -> None:
    """Print a result as a table."""
    from rich.markup import escape

    from gmi_drl.units import human_value

    gained = ["SM activity gained"] if result.knows_activity else []
    table = plain_table("side", "median", "range", result.against_title, *gained)
    for side, spread in result.summaries.items():
        median, *ends = (human_value(value, result.case.unit) for value in (spread.median, spread.least, spread.most))
        points = [result.gained(side)] if gained else []
        table.add_row(escape(side), median, " to ".join(ends), result.against(side), *points)
    console().print(f"{result.case.name}: {result.case.claim}", markup=False)
    console().print(table)
    console().print(f"{result.settings.repeats} rounds on {result.machine.described}\n", markup=False)
