"""Compares the means of two sides' seeds: their ratio, its interval, and whether chance explains the difference.

Seeds of two sides are not paired.
"""

import math
import random
import statistics
from collections.abc import Callable, Sequence

PERMUTATIONS, RESAMPLES = 20_000, 5_000


def ratio_of_means(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The ratio of the means; above 1 is good for us."""
    return statistics.fmean(ours) / statistics.fmean(theirs)


def relative_error(values: Sequence[float]) -> float:
    """The standard error of a mean, relative to it."""
    return statistics.stdev(values) / math.sqrt(len(values)) / statistics.fmean(values)


def interval(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the ratio of means by the percentile bootstrap; both sides are resampled independently."""
    generator = random.Random(0)
    drawn: Callable[[Sequence[float]], list[float]] = lambda of: generator.choices(of, k=len(of))  # noqa: E731
    ratios = sorted(ratio_of_means(drawn(ours), drawn(theirs)) for _ in range(RESAMPLES))
    return ratios[round(0.025 * RESAMPLES)], ratios[round(0.975 * RESAMPLES) - 1]


def chance(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The p-value of a two-sided permutation test: how often random assignments of values have means as far apart.

    Three values on each side cannot have less than 0.1, four not less than 0.03.
    """
    generator, pool, count = random.Random(0), [*ours, *theirs], len(ours)
    seen = abs(statistics.fmean(ours) - statistics.fmean(theirs))
    as_much = 0
    for _ in range(PERMUTATIONS):
        generator.shuffle(pool)
        as_much += abs(statistics.fmean(pool[:count]) - statistics.fmean(pool[count:])) >= seen
    return (as_much + 1) / (PERMUTATIONS + 1)
