"""Profiling-based GMI exploration (paper section 5.2): which points of a grid are worth measuring."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gmi_drl.layout.cut import AnyCut, Cut, Cuts
from gmi_drl.scheduler.profile import ProfilePoint

NUM_ENVS = tuple(128 * 2**i for i in range(8))
"""128 to 16384, doubling (paper section 5.2)."""

GPU_NUM_ENVS = (128, 256, *(1024 * 4**i for i in range(4)))
"""To 65536, as simulators on a GPU are slow to saturate; in few steps, so that more numbers of GMIs are tried. The
first two tell how much memory the rest will take."""

MOST_GMIS = 10
"""GMIs per device at most (Algorithm 2, line 2)."""

SATURATION_THRESHOLD = 0.1
"""The paper's alpha."""

STANDARD_ERRORS = 2.0
"""How far a speed may lie from what was measured: what is within that is noise."""

ASSUMED_ERROR = 0.02
"""Relative standard error of a speed of which nothing tells how noisy it is."""

IN_A_ROW = 2
"""Saturated steps, or failures, that end a walk: one may have its reason in the moment."""

Measure = Callable[[Cut], ProfilePoint | None]
"""A profiler, a profile file, or made-up numbers; None where nothing is known."""

Grid = Sequence[Cut]
"""What to try, in this order; of one division, with environments ascending."""


@dataclass(frozen=True)
class Candidate:
    """A point that runs, with what it promises for all GMIs on all devices.

    Args:
        point: As measured.
        projected: Steps per second when all GMIs run as this one did: the paper's `estimate`.
        expected: The same with the communication of equations 2 and 3.
        confirmed: Steps per second of all GMIs run together; None if that was not done.
        efficiency: What a step teaches in an update of so many, from 0 to 1 (`NoiseScale`); None if it is not known.
        by_model: Where unlike GPUs are cut each in its own way, each model with its point; `point` is the slowest then.
        from_run: Whether `point` is from that very run of all GMIs, so that `expected` foretells nothing.
    """

    point: ProfilePoint
    projected: float
    expected: float
    confirmed: float | None = None
    efficiency: float | None = None
    by_model: tuple[tuple[str, ProfilePoint], ...] = ()
    from_run: bool = False

    @property
    def cut(self) -> AnyCut:
        """How the devices are cut."""
        return Cuts(tuple((model, point.cut) for model, point in self.by_model)) if self.by_model else self.point.cut

    @property
    def points(self) -> tuple[ProfilePoint, ...]:
        """The point of all devices, or those of each model."""
        return tuple(point for _, point in self.by_model) or (self.point,)

    @property
    def is_solo(self) -> bool:
        """Whether no device is cut: one GMI has each."""
        return all(point.gmis_per_gpu == 1 for point in self.points)

    @property
    def memory_bytes(self) -> int:
        """Of the largest GMI."""
        return max(point.memory_bytes for point in self.points)

    @property
    def steps_per_second(self) -> float:
        """The best that is known."""
        return self.expected if self.confirmed is None else self.confirmed

    @property
    def error(self) -> float | None:
        """How much too fast equation 2 or 3 has foretold it, e.g. 0.05; None where it was not foretold, or not run."""
        return None if self.from_run or not self.confirmed else self.expected / self.confirmed - 1

    @property
    def useful_steps_per_second(self) -> float | None:
        """As many steps of updates from few samples would teach as much; None if the efficiency is not known."""
        return None if self.efficiency is None else self.efficiency * self.steps_per_second


def search(measure: Measure, grid: Grid) -> list[ProfilePoint]:
    """Measure a grid as far as it pays: for each division of a device raise num_env until a GMI saturates.

    Algorithm 2 stops at the first saturated step, and a dip of 0.1 % is one. Here `IN_A_ROW` saturated steps end the
    walk of a size, each outside the noise. What fails once ends nothing, as in the paper; `IN_A_ROW` failures in a row
    do, lest a size in which everything fails eats the budget. A point that nothing is known of is passed over.

    Args:
        measure: Tells how one GMI runs.
        grid: What to try.

    Returns:
        The points that run, as they were measured.
    """
    return [point for cuts in by_division(grid) for point in _walk(measure, cuts)]


def by_division(grid: Grid) -> list[list[Cut]]:
    """The parts of a grid that differ in their environments alone."""
    parts: dict[tuple[str, int], list[Cut]] = {}
    for cut in grid:
        parts.setdefault(cut.division, []).append(cut)
    return list(parts.values())


def saturation(before: ProfilePoint, after: ProfilePoint, standard_errors: float = 0.0) -> float:
    """Sat: relative gain in speed over relative growth of memory (Algorithm 2, lines 15 to 17).

    With k `standard_errors` the gain is the most that the noise allows: T' (1 + k e') / (T (1 - k e)) - 1, where T and
    T' are the speeds before and after, e and e' their `relative_error`. What then is saturated hardly is by chance.

    Where memory does not grow the printed Sat divides by zero; here any gain is then worth it. And it is positive when
    speed and memory fall together; here a fall of speed is saturation.
    """
    slowest = before.steps_per_second * (1 - standard_errors * before.relative_error)
    fastest = after.steps_per_second * (1 + standard_errors * after.relative_error)
    gain = fastest / slowest - 1 if slowest > 0 else float("inf")
    growth = after.memory_bytes / before.memory_bytes - 1 if before.memory_bytes else 0.0
    if gain <= 0:
        return gain
    return gain / growth if growth > 0 else float("inf")


def _walk(measure: Measure, cuts: Sequence[Cut]) -> Iterator[ProfilePoint]:
    """The runnable points of one division, up to and with the one that ends the walk."""
    before: ProfilePoint | None = None
    saturated = failed = 0
    for cut in cuts:
        point = measure(cut)
        if point is None:
            continue
        failed = 0 if point.runnable else failed + 1
        if failed == IN_A_ROW:
            return
        if not point.runnable:
            continue
        yield point
        point = _with_noise(point, before)
        if before is not None:
            is_saturated = saturation(before, point, STANDARD_ERRORS) < SATURATION_THRESHOLD
            saturated = saturated + 1 if is_saturated else 0
        if saturated == IN_A_ROW:
            return
        before = point


def _with_noise(point: ProfilePoint, before: ProfilePoint | None) -> ProfilePoint:
    """A point whose noise is not known is taken to be as noisy as the one before.

    One iteration tells no noise. It lasts as long as the many of a smaller point, so it is no noisier than their mean.
    """
    if point.relative_error:
        return point
    return point.model_copy(update={"relative_error": before.relative_error if before else ASSUMED_ERROR})
