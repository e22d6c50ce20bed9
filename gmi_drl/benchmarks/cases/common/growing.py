"""How a time grows with a size: the exponent of a power law, and the size where it bends."""

import math
from collections.abc import Callable, Sequence
from statistics import linear_regression

from gmi_drl.benchmarks.case import CURVES, DOUBLINGS, Sample, Side

BEND = 1.25
"""Growth bends at the size from which on each unit costs this many times what it cost at a smaller size, or more."""


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The exponent of the power law that fits best, by least squares of the logarithms."""
    slope, _ = linear_regression([math.log(size) for size in sizes], [math.log(each) for each in seconds])
    return slope


def bend(sizes: Sequence[float], seconds: Sequence[float]) -> float | None:
    """The first size of which a unit costs `BEND` times the cheapest unit of a smaller size, or more; None: nowhere."""
    least = math.inf
    for size, spent in zip(sizes, seconds, strict=True):
        if spent / size >= BEND * least:
            return size
        least = min(least, spent / size)
    return None


def side(name: str, sizes: Sequence[int], measure: Callable[[int], float]) -> Side:
    """Measures each size, the smallest first; details: the curve, and where it bends."""

    def sample() -> Sample:
        seconds = [measure(size) for size in sizes]
        details = {CURVES: {f"{name} {DOUBLINGS}": list(sizes), "seconds": seconds}, "bends_at": bend(sizes, seconds)}
        return Sample(exponent(sizes, seconds), details)

    return sample
