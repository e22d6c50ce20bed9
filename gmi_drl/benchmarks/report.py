"""Results as Markdown: tables and sections of the pages of results.

`python -m gmi_drl.benchmarks.report` in the root folder draws the learning curves of all tasks into one picture.
"""

from collections.abc import Collection
from pathlib import Path
from statistics import median

from gmi_drl.benchmarks.cases import CASES
from gmi_drl.benchmarks.plot import DPI, draw_panels
from gmi_drl.benchmarks.result import Result, load_result
from gmi_drl.benchmarks.statistics import spread as spread_of
from gmi_drl.errors import UsageError
from gmi_drl.units import human_value
from gmi_drl.workload import TASK_SPECS

SETTINGS = ("num_env",)
FOLDER, PICTURE = Path("benchmarks") / "results", Path("docs") / "guides" / "curves.png"
STALE = "stale: the code that it measures has changed since; `gmi-drl bench --stale` names a changed file"
Results = dict[str, Result]
"""Results by the names of their files. A case may have one for each machine, such as `figure_10_h100`."""


def overview(results: Results, stale: Collection[str] = ()) -> str:
    """A table with a row for each ratio.

    Args:
        results: The results that it shows.
        stale: Names of the results that are marked as stale.
    """
    titles = ("case", "ours", "against", "ratio", "the paper's or the peer's own figure", "measured")
    table = [_row(*titles), _row(*["---"] * len(titles))]
    table += [line for name, result in results.items() for line in _overview(name, result, name in stale)]
    return "\n".join(table) + "\n"


def detail_medians(result: Result, side: str) -> dict[str, str]:
    """Medians of the details of a side that are plain numbers or None in every sample, as text.

    Of a detail that is None in some samples they have the median of the others, and how many those are; for `SETTINGS`
    all values.
    """
    column = [sample.details for sample in result.samples[side]]
    has = [name for name in column[0] if name != "seed" and all(name in details for details in column)]
    values = {name: [details[name] for details in column] for name in has}
    return {name: _median_text(name, found) for name, found in values.items() if all(map(_is_number_or_none, found))}


def _median_text(name: str, values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "none"
    if name in SETTINGS:
        return " or ".join(map(str, sorted(set(known))))
    part = f" in {len(known)} of {len(values)}" if len(known) < len(values) else ""
    return f"{human_value(median(known), _unit(name))}{part}"


def _overview(name: str, result: Result, is_stale: bool) -> list[str]:
    """A row per ratio, or per side if the case has no ratios."""
    link, reference = f"[{name}](#{name}){', stale' if is_stale else ''}", result.case.reference or "-"
    last = (reference, f"{result.machine.date[:10]}, {result.machine.commit}")
    medians = {side: human_value(spread.median, result.case.unit) for side, spread in result.summaries.items()}
    first, *others = medians
    if not others:
        return [_row(link, medians[first], "-", "-", *last)]
    if result.case.is_baseline_first:
        baseline = f"{first}, {medians[first]}"
        return [_row(link, f"{side}, {medians[side]}", baseline, result.against(side), *last) for side in others]
    if not any(map(result.against, others)):
        return [_row(link, f"{side}, {text}", "-", "-", *last) for side, text in medians.items()]
    return [_row(link, medians[first], f"{side}, {medians[side]}", result.against(side), *last) for side in others]


def learning_of_tasks(results: Results) -> Results:
    """The results of training our own tasks, by the task's name."""
    return {task: results[name] for task in TASK_SPECS if (name := f"learning_{task}") in results}


def learning_table(results: Results) -> str:
    """A table of what each task reached: medians over the seeds, with the range of the returns."""
    results = learning_of_tasks(results)
    table = [
        _row("task", "return, untrained", "trained", "of seeds", "environment steps", "training", "command"),
        _row(*["---"] * 7),
    ]
    for task, result in results.items():
        (side, spread), *_ = result.summaries.items()
        details = {name: _median(result, side, name) for name in ("untrained", "env_steps", "training_s")}
        returns = f"{spread.median:,.0f} ({spread.least:,.0f} to {spread.most:,.0f})"
        steps, seconds = human_value(details["env_steps"], ""), f"{details['training_s']:.0f} s"
        count = str(len(result.samples[side]))
        table.append(_row(task, f"{details['untrained']:,.0f}", returns, count, steps, seconds, f"`{result.command}`"))
    head = "## The tasks, trained from scratch\n\nReturns are means of whole episodes, played without noise.\n"
    return "\n".join([head, *table, "", "![Reward of a step while training](../guides/curves.png)"]) + "\n"


def _median(result: Result, side: str, detail: str) -> float:
    return float(median(sample.details[detail] for sample in result.samples[side]))


def section(name: str, result: Result, folder: Path, is_stale: bool = False) -> str:
    """The section of one result: claim, command, numbers, machine, and its picture if `folder` has one."""
    case = result.case
    gained = ["SM activity gained"] if result.knows_activity else []
    head = ["side", "median", "range", result.against_title, *gained, "also"]
    lines = [
        f"## {name}",
        "",
        case.claim,
        "",
        f"    {result.command}",
        "",
        _row(*head),
        _row(*["---"] * len(head)),
    ]
    for side, spread in result.summaries.items():
        middle, least, most = (human_value(value, case.unit) for value in (spread.median, spread.least, spread.most))
        also = ", ".join(f"{name} {text}" for name, text in detail_medians(result, side).items())
        points = [result.gained(side)] if gained else []
        lines.append(_row(side, middle, f"{least} to {most}", result.against(side), *points, also))
    lines += ["", f"{result.settings.repeats} rounds on {result.machine.described}."]
    if result.calibration:
        lines += ["", f"A loop of the calibration: {_calibration(result)}."]
    if is_stale:
        lines += ["", f"**{STALE}**"]
    if result.machine.warning:
        lines += ["", f"**{result.machine.warning}**"]
    if (folder / f"{name}.png").exists():
        lines += ["", f"![{name}]({name}.png)"]
    return "\n".join(lines) + "\n"


def _calibration(result: Result) -> str:
    """The seconds of a calibration loop as text: the speed of the machine, to compare with other results."""
    middle, least, most = (human_value(value, "s") for value in spread_of(result.calibration))
    return f"{middle} ({least} to {most})"


def limits(results: Results) -> str:
    """The section on where gmi-drl does not help, and on what the figures do not show."""
    slower = [f"- {text}" for name, result in results.items() for text in result.below(1.0, name)]
    texts = dict.fromkeys(result.case.limits for result in results.values() if result.case.limits)
    names = {text: ", ".join(name for name, result in results.items() if result.case.limits == text) for text in texts}
    known = [f"- {names[text]}: {text}" for text in texts]
    return "\n".join(["## Where gmi-drl does not help, and what the figures do not say", "", *slower, *known]) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _is_number_or_none(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _unit(name: str) -> str:
    """The unit at the end of a detail's name; empty if there is none."""
    return next((unit for unit in ("s", "bytes") if name.endswith(f"_{unit}")), "")


def load_results(folder: Path) -> Results:
    """The results in a folder, in the order of the cases."""
    order = list(CASES)
    results = {file.stem: load_result(file) for file in sorted(folder.glob("*.json"))}
    if old := [name for name, result in results.items() if result.case.name not in CASES]:
        raise UsageError(f"{folder} has results of cases that do not exist: {', '.join(old)}. Delete them")
    return dict(sorted(results.items(), key=lambda item: order.index(item[1].case.name)))


def main() -> None:
    """Draw the picture with the learning curves of all tasks."""
    if found := learning_of_tasks(load_results(FOLDER)):
        draw_panels(found).savefig(PICTURE, dpi=DPI)


if __name__ == "__main__":
    main()
