"""Profiling-based GMI exploration (paper section 5.2, Algorithm 2)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gmi_drl.profile import ProfilePoint

NUM_ENVS = tuple(128 * 2**i for i in range(8))
"""128 to 16384, doubling (paper section 5.2)."""

MOST_GMIS = 10
SATURATION_THRESHOLD = 0.1
"""The paper's alpha."""

Measure = Callable[[int, int], ProfilePoint]
"""`(gmis_per_gpu, num_env) -> point`: a profiler, a profile file, or made-up numbers."""

Estimate = Callable[[ProfilePoint, int], float]
"""`(point, number of devices) -> steps per second of them all`."""


@dataclass(frozen=True)
class Candidate:
    """A point that was not saturated, with the steps per second of all GMIs on all devices that it projects to."""

    point: ProfilePoint
    projected: float


@dataclass(frozen=True)
class Search:
    """What was measured, in order, and the candidates, best first."""

    points: tuple[ProfilePoint, ...]
    candidates: tuple[Candidate, ...]


def estimate(point: ProfilePoint, num_devices: int) -> float:
    """Steps per second when all GMIs run as this one did: the paper's `estimate`."""
    return point.steps_per_second * point.gmis_per_gpu * num_devices


def search(
    measure: Measure,
    *,
    num_devices: int = 1,
    most_gmis: int = MOST_GMIS,
    num_envs: Sequence[int] = NUM_ENVS,
    saturation_threshold: float = SATURATION_THRESHOLD,
    estimate: Estimate = estimate,
) -> Search:
    """Algorithm 2: from `most_gmis` GMIs per device down to one, raise num_env until a GMI saturates.

    Three things are mended. As printed, the first runnable num_env of a size only primes the comparison and can never be
    chosen; here it is a candidate. Where memory does not grow the printed Sat divides by zero; here any gain in speed is
    then worth it. And Sat is positive again when speed and memory fall together; here a fall of speed is saturation.

    Args:
        measure: Tells how one GMI runs.
        num_devices: Devices that are cut alike.
        most_gmis: At most so many GMIs per device (cores of a CPU device, the maximum of MIG).
        num_envs: Environments per GMI to try, ascending.
        saturation_threshold: A GMI is saturated when Sat falls below it.
        estimate: Projects a point to all devices.
    """
    points = [point for gmis in range(most_gmis, 0, -1) for point in _walk(measure, gmis, num_envs, saturation_threshold)]
    ranked = [Candidate(point, estimate(point, num_devices)) for point in points if point.runnable]
    return Search(tuple(points), tuple(sorted(ranked, key=lambda candidate: -candidate.projected)))


def saturation(before: ProfilePoint, after: ProfilePoint) -> float:
    """Sat: relative gain in speed for the relative gain in memory (Algorithm 2, lines 15 to 17)."""
    gain = after.steps_per_second / before.steps_per_second - 1 if before.steps_per_second else float("inf")
    cost = after.memory_bytes / before.memory_bytes - 1 if before.memory_bytes else 0.0
    if gain <= 0:
        return min(gain, 0.0)
    return gain / cost if cost > 0 else float("inf")


def _walk(measure: Measure, gmis: int, num_envs: Sequence[int], threshold: float) -> Iterator[ProfilePoint]:
    """Points of one size, up to and with the one that shows saturation: past the knee nothing is measured."""
    before: ProfilePoint | None = None
    for num_env in num_envs:
        point = measure(gmis, num_env)
        yield point
        if not point.runnable:
            if before is not None:
                return  # what runs out of memory with fewer environments does not run with more
            continue
        if before is not None and saturation(before, point) < threshold:
            return
        before = point
