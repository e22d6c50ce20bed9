"""The page of a report."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from statistics import mean

from gmi_drl.files import dump_yaml
from gmi_drl.results.comparison import Estimate, curve, final_return, steps_per_second
from gmi_drl.results.report.charts import chart, phase_bars, phase_timeline
from gmi_drl.results.report.html import document, folded, table
from gmi_drl.results.report.layout_drawing import layout_drawing
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.phases import PHASE_NAMES
from gmi_drl.run.run_data import RunData, differences, groups_of
from gmi_drl.units import human_count, human_seconds, quoted

MOST_DETAILED = 4
"""Runs that have a section each; of more, the first run of each of so many configurations has one."""

FILM_TYPES = {".mp4": "video/mp4", ".gif": "image/gif"}


def page(runs: Sequence[RunData], film: Path | None = None) -> str:
    """The page about runs, as HTML.

    Args:
        runs: At least one.
        film: A video or picture to show, `.mp4` or `.gif`.
    """
    groups = groups_of(list(runs))
    title = ", ".join(sorted({run.layout.task or "no task" for run in runs}))
    detailed = runs if len(runs) <= MOST_DETAILED else [group[0] for group in groups][:MOST_DETAILED]
    parts = [
        f"<h1>{escape(title)}: {len(runs)} run{'s' * (len(runs) > 1)}</h1>",
        _comparison(groups),
        f'<div class="charts">{_curves(runs, groups)}</div>',
        _film(film),
        *(_section(run) for run in detailed),
    ]
    return document(title, parts)


def _curves(runs: Sequence[RunData], groups: list[list[RunData]]) -> str:
    """Returns and throughput: of each run, or of each configuration if there are several seeds."""
    by_group = len(runs) > MOST_DETAILED
    names = _names(groups) if by_group else {str(run.path): [run] for run in runs}
    returns = {name: curve(group) if by_group else group[0].returns for name, group in names.items()}
    speeds = {name: _speeds(group[0]) for name, group in names.items()}
    of, of_first = (", mean over seeds", ", of the first seed") if by_group else ("", "")
    return chart(f"Return{of}", returns, "env steps") + chart(f"Steps/s{of_first}", speeds, "env steps")


def _speeds(run: RunData) -> list[tuple[float, float]]:
    return [(row["env_steps"], row["steps_per_second"]) for row in run.rows if row.get("steps_per_second") is not None]


def _names(groups: list[list[RunData]]) -> dict[str, list[RunData]]:
    """Configurations by their numbers and all that differs in them."""
    if len(groups) == 1:
        return {f"all ({len(groups[0])})": groups[0]}
    different = differences(groups)
    names = [
        ", ".join(f"{key.rpartition('.')[2]}={values[number]}" for key, values in different.items())
        for number in range(len(groups))
    ]
    numbered = enumerate(zip(names, groups, strict=True), 1)
    return {f"{number}: {name} ({len(group)})": group for number, (name, group) in numbered}


def _comparison(groups: list[list[RunData]]) -> str:
    """The table of configurations."""
    rows = [
        [name, ", ".join(str(run.config.seed) for run in group), _cell(final_return(group)), _speed(group)]
        for name, group in _names(groups).items()
    ]
    return table(["configuration (runs)", "seeds", "final return", "steps/s"], rows)


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return "no episode has ended"
    ends = "" if estimate.low is None else f", 95 % interval {estimate.low:.1f} to {estimate.high:.1f}"
    return f"{estimate.value:.1f} ({estimate.statistic}{ends})"


def _speed(group: list[RunData]) -> str:
    speed = steps_per_second(group)
    return human_count(speed.value) if speed else "-"


def _section(run: RunData) -> str:
    """What a run was, and what repeats it."""
    last = run.rows[-1]
    facts = [
        ["state", run.state],
        ["iterations", f"{last['iteration']} of {run.config.iterations}"],
        ["env steps", human_count(last["env_steps"])],
        ["time of its iterations", human_seconds(_seconds(run))],
    ]
    paths = (run.path / "layout.yaml", run.path / "config.yaml", run.path)
    versions = RunFolder(run.path).read_versions() or {"not known:": "versions.json is broken or not there"}
    layout, config, folder = (quoted(path) for path in paths)
    repeat = f"gmi-drl train {layout} --algo {run.config.learner.kind} --config {config}\ngmi-drl play {folder}"
    return (
        f"<h2>{escape(str(run.path))}</h2>{table([], facts)}"
        f'<div class="charts">{layout_drawing(run.layout)}{phase_bars(_phases(run))}'
        f"{phase_timeline([(row['env_steps'], row) for row in run.rows], 'env steps')}</div>"
        f"<p>These commands repeat it:</p><pre>{escape(repeat)}</pre>"
        f"{folded('config.yaml', dump_yaml(run.config))}{folded('layout.yaml', dump_yaml(run.layout))}"
        f"{folded('versions', chr(10).join(f'{name} {value}' for name, value in versions.items()))}"
    )


def _seconds(run: RunData) -> float:
    """Of all iterations, without starts and stops."""
    steps = [0, *(row["env_steps"] for row in run.rows)]
    speeds = [row.get("steps_per_second") for row in run.rows]
    each = zip(steps, steps[1:], speeds, strict=False)
    seconds: float = sum((now - before) / speed for before, now, speed in each if speed)
    return seconds


def _phases(run: RunData) -> dict[str, dict[str, float]]:
    """Mean seconds of each GMI's phases."""
    rows = [row["gmis"] for row in run.rows if row.get("gmis")]
    return {
        f"GMI {gmi}": {name: mean(row[gmi].get(name) or 0.0 for row in rows if gmi in row) for name in PHASE_NAMES}
        for gmi in (rows[-1] if rows else {})
    }


def _film(film: Path | None) -> str:
    if film is None:
        return ""
    kind = FILM_TYPES[film.suffix.lower()]
    source = f"data:{kind};base64,{base64.b64encode(film.read_bytes()).decode()}"
    if kind.startswith("video"):
        return f'<h2>Film</h2><video controls muted loop src="{source}"></video>'
    return f'<h2>Film</h2><img class="film" alt="The policy" src="{source}">'
