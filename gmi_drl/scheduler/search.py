"""Profiling-based GMI exploration (paper section 5.2, Algorithm 2)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gmi_drl.profile import ProfilePoint

NUM_ENVS = tuple(128 * 2**i for i in range(8))
"""128 to 16384, doubling (paper section 5.2)."""

MOST_GMIS = 10
"""GMIs per device at most (Algorithm 2, line 2)."""

SATURATION_THRESHOLD = 0.1
"""The paper's alpha."""

Measure = Callable[[int, int], ProfilePoint | None]
"""`(gmis_per_gpu, num_env) -> point`: a profiler, a profile file, or made-up numbers; None where nothing is known."""

Grid = Mapping[int, Sequence[int]]
"""For each number of GMIs per device the numbers of environments of a GMI to try, ascending."""


@dataclass(frozen=True)
class Candidate:
    """A point that runs, with what it promises for all GMIs on all devices.

    Args:
        point: As measured.
        projected: Steps per second when all GMIs run as this one did: the paper's `estimate`.
        expected: The same with equation 3's communication.
        confirmed: Steps per second of all GMIs run together; None if that was not done.
    """

    point: ProfilePoint
    projected: float
    expected: float
    confirmed: float | None = None

    @property
    def steps_per_second(self) -> float:
        """The best that is known."""
        return self.expected if self.confirmed is None else self.confirmed


def search(
    measure: Measure,
    grid: Grid,
    judge: Callable[[ProfilePoint], Candidate],
    saturation_threshold: float = SATURATION_THRESHOLD,
) -> list[Candidate]:
    """Algorithm 2: for each number of GMIs per device raise num_env until a GMI saturates; candidates, best first.

    Three things are mended. As printed, the first runnable num_env of a size only primes the comparison and can never
    be chosen; here it is a candidate. Where memory does not grow the printed Sat divides by zero; here any gain in
    speed is then worth it. And Sat is positive when speed and memory fall together; here a fall of speed is saturation.
    The point that shows saturation has been measured, so it is a candidate, too.

    Args:
        measure: Tells how one GMI runs.
        grid: What to try.
        judge: Projects a point to all GMIs on all devices (`estimate`, line 23).
        saturation_threshold: A GMI is saturated when Sat falls below it.
    """
    walks = (_walk(measure, size, num_envs, saturation_threshold) for size, num_envs in grid.items())
    return sorted((judge(point) for walk in walks for point in walk), key=lambda candidate: -candidate.expected)


def saturation(before: ProfilePoint, after: ProfilePoint) -> float:
    """Sat: relative gain in speed over relative growth of memory (Algorithm 2, lines 15 to 17)."""
    gain = after.steps_per_second / before.steps_per_second - 1 if before.steps_per_second else float("inf")
    growth = after.memory_bytes / before.memory_bytes - 1 if before.memory_bytes else 0.0
    if gain <= 0:
        return gain
    return gain / growth if growth > 0 else float("inf")


def _walk(measure: Measure, size: int, num_envs: Sequence[int], threshold: float) -> Iterator[ProfilePoint]:
    """The runnable points of one size, up to and with the one that shows saturation."""
    before: ProfilePoint | None = None
    for num_env in num_envs:
        point = measure(size, num_env)
        if point is None:
            continue
        if not point.runnable:
            if before is not None:
                return  # more environments need more still
            continue
        yield point
        if before is not None and saturation(before, point) < threshold:
            return
        before = point
