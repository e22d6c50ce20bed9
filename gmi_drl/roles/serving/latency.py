"""How long control steps take: a histogram, so that any number of steps takes the same room and GMIs can be joined."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

SHORTEST_S = 1e-6
WIDTH = 1.01
"""How much longer than the last a class of times reaches: what is told of times is up to 1 % too long."""

CLASSES = 2100
"""Up to 20 minutes."""

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class Latencies:
    """Times in classes of 1 %, and the longest as it was."""

    def __init__(self) -> None:
        self._counts = np.zeros(CLASSES, dtype=np.int64)
        self.longest_s = 0.0

    def add(self, seconds: Sequence[float]) -> None:
        """Count times."""
        if not len(seconds):
            return
        times = np.maximum(np.asarray(seconds, dtype=np.float64), SHORTEST_S)
        classes = np.minimum(np.log(times / SHORTEST_S) / np.log(WIDTH), CLASSES - 1).astype(np.int64)
        self._counts += np.bincount(classes, minlength=CLASSES)
        self.longest_s = max(self.longest_s, float(times.max()))

    def quantile(self, part: float) -> float:
        """Seconds that this part of all steps took at most; needs a step."""
        reached = int(np.searchsorted(self._counts.cumsum(), np.ceil(part * self._counts.sum())))
        return min(SHORTEST_S * WIDTH ** (reached + 1), self.longest_s)

    def milliseconds(self) -> dict[str, float] | None:
        """`p50`, `p95`, `p99` and `max`; None if there was no step."""
        if not self._counts.any():
            return None
        times = {name: self.quantile(part) for name, part in QUANTILES.items()} | {"max": self.longest_s}
        return {name: 1000 * seconds for name, seconds in times.items()}

    def to_json(self) -> dict[str, Any]:
        """As a message has it."""
        counts = {str(place): int(self._counts[place]) for place in self._counts.nonzero()[0]}
        return {"longest_s": self.longest_s, "counts": counts}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """What `to_json` told."""
        latencies = cls()
        latencies.longest_s = told["longest_s"]
        for place, count in told["counts"].items():
            latencies._counts[int(place)] = count
        return latencies

    @classmethod
    def joined(cls, several: Iterable["Latencies"]) -> Self:
        """Of the steps of all."""
        joined = cls()
        for one in several:
            joined._counts += one._counts
            joined.longest_s = max(joined.longest_s, one.longest_s)
        return joined
