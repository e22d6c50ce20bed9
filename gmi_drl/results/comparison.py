"""A comparison of configurations over their seeds: means with bootstrap intervals, and curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from gmi_drl.benchmarks.statistics import bootstrap
from gmi_drl.run.run_data import RunData, per_seed

ENOUGH_FOR_IQM = 8
"""Seeds from which the interquartile mean is taken in place of the mean."""

ENOUGH_FOR_INTERVAL = 3
"""Seeds from which a bootstrap interval is shown; with fewer it says nothing."""

POINTS = 200
"""Points of a curve."""


@dataclass(frozen=True)
class Estimate:
    """A statistic over seeds; `low` and `high` are the ends of its 95 % interval, None with too few seeds."""

    count: int
    statistic: str
    value: float
    low: float | None
    high: float | None


def estimate(values: Sequence[float]) -> Estimate | None:
    """The mean of a value per seed, or their interquartile mean if there are enough; None without any."""
    if not values:
        return None
    name, of = ("interquartile mean", interquartile_mean) if len(values) >= ENOUGH_FOR_IQM else ("mean", mean)
    low, high = bootstrap(values, of) if len(values) >= ENOUGH_FOR_INTERVAL else (None, None)
    return Estimate(len(values), name, of(values), low, high)


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean without the lowest and the highest quarter (Agarwal et al. 2021, arXiv 2108.13264)."""
    cut = len(values) // 4
    return mean(sorted(values)[cut : len(values) - cut])


def curve(group: Sequence[RunData]) -> list[tuple[float, float]]:
    """Mean return of the seeds over environment steps, as far as all seeds go; empty without an episode."""
    curves = [run.returns for run in group if run.returns]
    if not curves:
        return []
    first, last = max(one[0][0] for one in curves), min(one[-1][0] for one in curves)
    if last <= first:
        return [(first, mean(_at(one, first) for one in curves))]
    steps = [first + (last - first) * number / (POINTS - 1) for number in range(POINTS)]
    return [(step, mean(_at(one, step) for one in curves)) for step in steps]


def final_return(group: list[RunData]) -> Estimate | None:
    """Over the seeds; see `RunData.final_return`."""
    return estimate(per_seed(group, lambda run: run.final_return))


def steps_per_second(group: list[RunData]) -> Estimate | None:
    """Over the seeds; see `RunData.steps_per_second`."""
    return estimate(per_seed(group, lambda run: run.steps_per_second))


def _at(points: list[tuple[float, float]], x: float) -> float:
    """The value at `x`, between two points on the line through them."""
    before = [point for point in points if point[0] <= x] or points[:1]
    after = [point for point in points if point[0] >= x] or points[-1:]
    (x0, y0), (x1, y1) = before[-1], after[0]
    return y0 if x1 <= x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
