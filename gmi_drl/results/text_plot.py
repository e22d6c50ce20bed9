"""Curves as lines of text, for a terminal."""

from collections.abc import Mapping, Sequence

from gmi_drl.units import human_count

HEIGHT = 12
LABEL_WIDTH = 8

Points = Sequence[tuple[float, float]]


def text_plot(curves: Mapping[str, Points], width: int, x_title: str) -> list[str]:
    """Curves in one frame of `width` columns; each is drawn by the first letter of its name. A later one covers.

    Curves without points are left out; without any there are no lines.
    """
    points = [point for curve in curves.values() for point in curve]
    if not points:
        return []
    (left, right), (low, high) = ((min(values), max(values)) for values in zip(*points, strict=True))
    columns = width - LABEL_WIDTH - 2
    grid = [[" "] * columns for _ in range(HEIGHT)]
    for name, curve in curves.items():
        for x, y in curve:
            column = _place(x, left, right, columns)
            grid[HEIGHT - 1 - _place(y, low, high, HEIGHT)][column] = name[0]
    labels = {0: _number(high), HEIGHT // 2: _number((low + high) / 2), HEIGHT - 1: _number(low)}
    lines = [f"{labels.get(row, ''):>{LABEL_WIDTH}} |{''.join(cells).rstrip()}" for row, cells in enumerate(grid)]
    end = f"{human_count(right)} {x_title}"
    start = human_count(left)
    gap = max(1, columns - len(start) - len(end))
    return [*lines, f"{'':>{LABEL_WIDTH}} +{'-' * columns}", f"{'':>{LABEL_WIDTH}}  {start}{' ' * gap}{end}"]


def _place(value: float, low: float, high: float, count: int) -> int:
    return 0 if high <= low else min(count - 1, int((value - low) / (high - low) * count))


def _number(value: float) -> str:
    return human_count(value) if abs(value) >= 1000 else f"{value:.4g}"
