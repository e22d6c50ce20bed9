"""The page about results of `gmi-drl bench`."""

from collections.abc import Sequence
from html import escape
from itertools import chain

from gmi_drl.benchmarks.result import Result
from gmi_drl.results.report.assets import COLOURS
from gmi_drl.results.report.charts import LEFT, RIGHT, WIDTH, x_axis
from gmi_drl.results.report.html import document, folded, table
from gmi_drl.units import human_value

ROW, HIGH = 44, 26
"""Heights of a side's line in a figure, and of the labels below."""


def bench_page(results: Sequence[Result]) -> str:
    """The page about results, as HTML: what is claimed, each side's measurements, ratios, machine and command."""
    names = ", ".join(dict.fromkeys(result.case.name for result in results))
    return document(names, [f"<h1>{escape(names)}</h1>", *map(_section, results)])


def _section(result: Result) -> str:
    case, machine = result.case, result.machine
    rows = [
        [side, *(human_value(value, case.unit) for value in (of.median, of.least, of.most)), result.against(side)]
        for side, of in result.summaries.items()
    ]
    facts = [["the paper's or the peer's own figure", case.reference], ["what it does not show", case.limits]]
    facts += [["measured", machine.date[:10]], ["on", machine.described], ["warning", machine.warning or ""]]
    versions = "\n".join(f"{name} {version}" for name, version in machine.versions.items())
    return (
        f"<h2>{escape(case.name)}</h2><p>{escape(case.claim)}</p>"
        f"{table(['side', 'median', 'least', 'most', result.against_title], rows)}"
        f'<div class="charts">{_dots(result)}</div>{table([], [fact for fact in facts if fact[1]])}'
        f"<p>This command repeats it:</p><pre>{escape(result.command)}</pre>{folded('versions', versions)}"
    )


def _dots(result: Result) -> str:
    """Each measurement as a dot, the median as a line, a row for each side, on one scale from 0."""
    values = {side: [sample.value for sample in samples] for side, samples in result.samples.items()}
    low, high = min(0.0, *chain(*values.values())), max(0.0, *chain(*values.values()))
    bottom = ROW * len(values)
    place, axis = x_axis(low, high, bottom)
    marks = []
    for number, (side, measured) in enumerate(values.items()):
        y, middle = ROW * number + 30, place(result.summaries[side].median)
        marks.append(f'<text class="name" x="{LEFT}" y="{y - 14}">{escape(side)}</text>')
        marks.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        at, colour = f'x1="{middle:.1f}" x2="{middle:.1f}" y1="{y - 9}" y2="{y + 9}"', f"var(--c{number % COLOURS})"
        marks.append(f'<line {at} style="stroke:{colour};stroke-width:3"/>')
        marks += [
            f'<circle cx="{place(value):.1f}" cy="{y}" r="4" style="fill:{colour};opacity:.6">'
            f"<title>{escape(f'{side}: {human_value(value, result.case.unit)}')}</title></circle>"
            for value in measured
        ]
    title = f"{result.case.unit}, {'lower' if result.case.lower_is_better else 'higher'} is better"
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {bottom + HIGH}" role="img" '
        f'aria-label="{escape(title)}">{axis}{"".join(marks)}</svg></figure>'
    )
