"""Latencies of control steps, as a histogram: of fixed size, and histograms of several GMIs can be added."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

SHORTEST_S = 1e-6
WIDTH = 1.01
"""Upper bound of a bin divided by its lower bound: quantiles are up to 1 % too long."""

BINS = 2100
"""For up to 20 minutes."""

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class Latencies:
    """Counts of times in bins of 1 %, and the exact longest time."""

    def __init__(self) -> None:
        self._counts = np.zeros(BINS, dtype=np.int64)
        self.longest_s = 0.0

    def add(self, seconds: Sequence[float]) -> None:
        """Count these times."""
        if not len(seconds):
            return
        times = np.maximum(np.asarray(seconds, dtype=np.float64), SHORTEST_S)
        bins = np.minimum(np.log(times / SHORTEST_S) / np.log(WIDTH), BINS - 1).astype(np.int64)
        self._counts += np.bincount(bins, minlength=BINS)
        self.longest_s = max(self.longest_s, float(times.max()))

    def quantile(self, part: float) -> float:
        """The time in seconds that this part of the steps, 0 to 1, did not exceed. There must be a step."""
        reached = int(np.searchsorted(self._counts.cumsum(), np.ceil(part * self._counts.sum())))
        return min(SHORTEST_S * WIDTH ** (reached + 1), self.longest_s)

    def milliseconds(self) -> dict[str, float] | None:
        """`p50`, `p95`, `p99` and `max`; None if there was no step."""
        if not self._counts.any():
            return None
        times = {name: self.quantile(part) for name, part in QUANTILES.items()} | {"max": self.longest_s}
        return {name: 1000 * seconds for name, seconds in times.items()}

    def to_json(self) -> dict[str, Any]:
        """The histogram as JSON."""
        counts = {str(place): int(self._counts[place]) for place in self._counts.nonzero()[0]}
        return {"longest_s": self.longest_s, "counts": counts}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The histogram that `to_json` has written."""
        latencies = cls()
        latencies.longest_s = content["longest_s"]
        for place, count in content["counts"].items():
            latencies._counts[int(place)] = count
        return latencies

    @classmethod
    def joined(cls, several: Iterable["Latencies"]) -> Self:
        """The histogram of the steps of several."""
        joined = cls()
        for one in several:
            joined._counts += one._counts
            joined.longest_s = max(joined.longest_s, one.longest_s)
        return joined
