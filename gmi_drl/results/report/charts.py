"""Curves and bars as inline SVG."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from gmi_drl.results.report.assets import COLOURS
from gmi_drl.run.phases import PHASES
from gmi_drl.units import human_count

WIDTH, HEIGHT = 560, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 8, 8, 26
MOST_POINTS = 300
TICKS = 5

Points = Sequence[tuple[float, float]]


def chart(title: str, curves: Mapping[str, Points], x_title: str) -> str:
    """A figure with curves, whose values a pointer shows; empty without any point."""
    drawn = {name: thinned(points) for name, points in curves.items() if points}
    points = [point for curve in drawn.values() for point in curve]
    if not points:
        return ""
    (x0, x1), (y0, y1) = ((min(values), max(values)) for values in zip(*points, strict=True))
    ticks = nice_ticks(y0, y1)
    y0, y1 = min(y0, ticks[0]), max(y1, ticks[-1])

    def place(x: float, y: float) -> tuple[float, float]:
        right, bottom = WIDTH - RIGHT - LEFT, HEIGHT - TOP - BOTTOM
        return LEFT + _share(x, x0, x1) * right, TOP + (1 - _share(y, y0, y1)) * bottom

    lines = [_level(place(x0, y)[1], y) for y in ticks]
    lines += [_x_label(place(x, y0)[0], x) for x in nice_ticks(x0, x1) if x0 <= x <= x1]
    lines += [_curve(number, [place(*point) for point in curve]) for number, curve in enumerate(drawn.values())]
    pointer = f'<line class="grid pointer" y1="{TOP}" y2="{HEIGHT - BOTTOM}" style="display:none"/>'
    data = {
        **{"left": LEFT, "right": WIDTH - RIGHT, "low": x0, "high": x1, "title": x_title},
        "curves": [{"name": name, "points": curve} for name, curve in drawn.items()],
    }
    return (
        f'<figure data-curves="{escape(json.dumps(data))}"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(lines)}{pointer}</svg>'
        f'{keys(list(drawn)) if len(drawn) > 1 else ""}<div class="soft">{escape(x_title)}</div>'
        '<div class="tip"></div></figure>'
    )


def phase_bars(phases: Mapping[str, Mapping[str, float]]) -> str:
    """Seconds of the phases of an iteration by GMI, as bars of one scale; empty without any."""
    longest = max((sum(seconds.values()) for seconds in phases.values()), default=0.0)
    if longest <= 0:
        return ""
    bars = []
    for row, (name, seconds) in enumerate(phases.items()):
        bars.append(f'<text class="name" x="0" y="{row * 26 + 17}">{escape(name)}</text>')
        x = 80.0
        for number, phase in enumerate(PHASES):
            width = seconds.get(phase.name, 0.0) / longest * (WIDTH - 80)
            what = f"{name}, {phase.label}: {seconds.get(phase.name, 0.0) * 1000:.1f} ms"
            bars.append(
                f'<rect x="{x:.1f}" y="{row * 26 + 4}" width="{width:.1f}" height="18" style="fill:var(--c{number})">'
                f"<title>{escape(what)}</title></rect>"
            )
            x += width
    title = f"Phases of an iteration, mean, up to {longest * 1000:.0f} ms"
    return (
        f'<figure><figcaption>{title}</figcaption><svg viewBox="0 0 {WIDTH} {26 * len(phases)}" role="img" '
        f'aria-label="{title}">{"".join(bars)}</svg>{keys([phase.label for phase in PHASES])}</figure>'
    )


def phase_timeline(times: Sequence[tuple[float, Mapping[str, float]]], x_title: str) -> str:
    """The shares of the phases during a run, as areas one on another; empty with fewer than two points.

    Args:
        times: A place on the x axis, and seconds of the phases by name.
        x_title: Of the x axis.
    """
    each = max(1, math.ceil(len(times) / MOST_POINTS))
    groups = [times[begin : begin + each] for begin in range(0, len(times), each)]
    spent = [[sum(seconds.get(phase.name) or 0.0 for _, seconds in group) for phase in PHASES] for group in groups]
    known = [(group[-1][0], seconds) for group, seconds in zip(groups, spent, strict=True) if sum(seconds) > 0]
    if len(known) < 2:
        return ""
    first, last = known[0][0], known[-1][0]
    width, height = WIDTH - RIGHT - LEFT, HEIGHT - TOP - BOTTOM
    places = [LEFT + _share(x, first, last) * width for x, _ in known]
    below, areas = [0.0] * len(known), []
    for number, phase in enumerate(PHASES):
        above = [low + seconds[number] / sum(seconds) for low, (_, seconds) in zip(below, known, strict=True)]
        edge = [*zip(places, above, strict=True), *reversed([*zip(places, below, strict=True)])]
        corners = " ".join(f"{x:.1f},{TOP + (1 - share) * height:.1f}" for x, share in edge)
        areas.append(
            f'<polygon style="fill:var(--c{number})" points="{corners}"><title>{escape(phase.label)}</title></polygon>'
        )
        below = above
    marked = [x for x in nice_ticks(first, last) if first <= x <= last]
    labels = [_x_label(LEFT + _share(x, first, last) * width, x) for x in marked]
    levels = [_level(TOP + (1 - share / 100) * height, share) for share in (0, 25, 50, 75, 100)]
    title = "Phases during the run, % of an iteration"
    return (
        f'<figure><figcaption>{title}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{title}">{"".join([*areas, *levels, *labels])}</svg>'
        f'{keys([phase.label for phase in PHASES])}<div class="soft">{escape(x_title)}</div></figure>'
    )


def x_axis(low: float, high: float, y: float) -> tuple[Callable[[float], float], str]:
    """Where values lie between two of them, and the labels of such an axis below `y`."""
    ticks = nice_ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])

    def place(x: float) -> float:
        return LEFT + _share(x, low, high) * (WIDTH - RIGHT - LEFT)

    return place, "".join(_x_label(place(x), x, y + BOTTOM) for x in ticks)


def keys(names: Sequence[str]) -> str:
    """Which colour is which."""
    spans = (
        f'<span><span class="key" style="background:var(--c{number % COLOURS})"></span>{escape(name)}</span>'
        for number, name in enumerate(names)
    )
    return f'<div class="keys">{"".join(spans)}</div>'


def thinned(points: Points) -> list[tuple[float, float]]:
    """At most `MOST_POINTS` points, each the mean of those that it stands for."""
    each = max(1, math.ceil(len(points) / MOST_POINTS))
    groups = [points[begin : begin + each] for begin in range(0, len(points), each)]
    return [(group[-1][0], sum(y for _, y in group) / len(group)) for group in groups]


def nice_ticks(low: float, high: float) -> list[float]:
    """Round numbers from at most `low` to at least `high`."""
    span = high - low or abs(high) or 1.0
    power = 10 ** math.floor(math.log10(span / TICKS))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) <= TICKS)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _level(y: float, value: float) -> str:
    line = f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return f'{line}<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_text(value)}</text>'


def _x_label(x: float, value: float, bottom: float = HEIGHT) -> str:
    return f'<text x="{min(x, WIDTH - 20):.1f}" y="{bottom - 8:g}" text-anchor="middle">{_text(value)}</text>'


def _curve(number: int, places: Sequence[tuple[float, float]]) -> str:
    colour = f"var(--c{number % COLOURS})"
    if len(places) == 1:
        ((x, y),) = places
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" style="fill:{colour}"/>'
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline class="curve" style="stroke:{colour}" points="{corners}"/>'


def _text(value: float) -> str:
    return human_count(value) if abs(value) >= 1000 else f"{value:.4g}"
