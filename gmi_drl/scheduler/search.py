"""Profiling-based GMI exploration (paper section 5.2, Algorithm 2)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gmi_drl.profile import ProfilePoint

NUM_ENVS = tuple(128 * 2**i for i in range(8))
"""128 to 16384, doubling (paper section 5.2)."""

SIZES = tuple(range(10, 0, -1))
"""GMIs per device, from 10 down to 1 (Algorithm 2, line 2)."""

SATURATION_THRESHOLD = 0.1
"""The paper's alpha."""

Measure = Callable[[int, int], ProfilePoint | None]
"""`(gmis_per_gpu, num_env) -> point`: a profiler, a profile file, or made-up numbers; None where nothing is known."""


@dataclass(frozen=True)
class Candidate:
    """A point that runs, with the steps per second that it projects to for all GMIs on all devices."""

    point: ProfilePoint
    projected: float


def estimate(point: ProfilePoint, num_devices: int) -> float:
    """Steps per second when all GMIs run as this one did: the paper's `estimate`."""
    return point.steps_per_second * point.gmis_per_gpu * num_devices


def search(
    measure: Measure,
    *,
    num_devices: int = 1,
    sizes: Sequence[int] = SIZES,
    num_envs: Sequence[int] = NUM_ENVS,
    saturation_threshold: float = SATURATION_THRESHOLD,
) -> list[Candidate]:
    """Algorithm 2: for each number of GMIs per device raise num_env until a GMI saturates; candidates, best first.

    Three things are mended. As printed, the first runnable num_env of a size only primes the comparison and can never
    be chosen; here it is a candidate. Where memory does not grow the printed Sat divides by zero; here any gain in
    speed is then worth it. And Sat is positive when speed and memory fall together; here a fall of speed is saturation.
    The point that shows saturation has been measured, so it is a candidate, too.

    Args:
        measure: Tells how one GMI runs.
        num_devices: Devices that are cut alike.
        sizes: GMIs per device to try.
        num_envs: Environments per GMI to try, ascending.
        saturation_threshold: A GMI is saturated when Sat falls below it.
    """
    points = [point for size in sizes for point in _walk(measure, size, num_envs, saturation_threshold)]
    candidates = [Candidate(point, estimate(point, num_devices)) for point in points]
    return sorted(candidates, key=lambda candidate: -candidate.projected)


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
        if point is None or not point.runnable:
            continue
        yield point
        if before is not None and saturation(before, point) < threshold:
            return
        before = point
