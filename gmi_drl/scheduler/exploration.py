"""Searches a grid for points worth measuring: profiling-based GMI exploration (paper section 5.2)."""

import math
from collections.abc import Callable, Iterator, Sequence

from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler.profile import ProfilePoint

NUM_ENVS = tuple(128 * 2**i for i in range(8))
"""128 to 16384, doubling (paper section 5.2)."""

GPU_NUM_ENVS = (4096, 16384, 1024, 65536, 8192, 2048, 32768, 256)
"""Up to 65536, since simulators on a GPU saturate late. The first four show most; the others are looked at if they may
be better. With few environments a GPU is idle."""

MOST_GMIS = 10
"""GMIs per device at most (Algorithm 2, line 2)."""

SATURATION_THRESHOLD = 0.1
"""The paper's alpha."""

STANDARD_ERRORS = 2.0
"""How far a speed may be from the measured one; smaller differences count as noise."""

ASSUMED_ERROR = 0.02
"""Relative standard error of a speed whose noise is not known."""

IN_A_ROW = 2
"""Saturated steps, or failures, in a row that end a walk: a single one may be chance."""

Measure = Callable[[Cut], ProfilePoint | None]
"""Measures a cut, or looks it up in a profile. Returns None if nothing is known of it."""

Grid = Sequence[Cut]
"""The cuts to try, division after division; of a simulator on a GPU the best guess first, of others ascending."""

Worth = Callable[[Cut, float], float]
"""What a cut is worth by the objective of a plan if one of its GMIs does so many steps per second."""


def search(measure: Measure, grid: Grid, worth: Worth | None = None) -> list[ProfilePoint]:
    """Measure a grid as far as it pays: for each division of a device raise num_env until a GMI saturates.

    With `worth`, numbers of environments are taken in the order of the grid instead, without those that cannot be
    better than the best so far (`ceiling`).

    Algorithm 2 stops at the first saturated step, even for a dip of 0.1 %. Here `IN_A_ROW` saturated steps, each beyond
    the noise, end the walk of a division. One failure does not end it, as in the paper; `IN_A_ROW` failures do, so that
    a division in which everything fails does not use up the budget. Unknown points are skipped.

    Args:
        measure: Measures one GMI.
        grid: The cuts to try.
        worth: What the plan maximises; None to go by saturation.

    Returns:
        The runnable points, as measured.
    """
    if worth is None:
        return [point for cuts in by_division(grid) for point in _walk(measure, sorted(cuts, key=_cut_num_env))]
    found: list[ProfilePoint] = []
    for cuts in by_division(grid):
        found.extend(_best_guesses(measure, _nearest_first(cuts, found, worth), found, worth))
    return found


def ceiling(cut: Cut, points: Sequence[ProfilePoint]) -> float:
    """The most steps per second that one GMI of a cut can do by measured points of its division, infinite without any.

    With more environments an iteration is no shorter, so steps per second grow no faster than environments. With fewer
    a GMI does no more steps per second, unless more are too many for it: then they are at most those of its neighbours.
    """
    fewer = max((point for point in points if point.num_env < cut.num_env), key=_num_env, default=None)
    more = min((point for point in points if point.num_env > cut.num_env), key=_num_env, default=None)
    by_time = fewer.steps_per_second * cut.num_env / fewer.num_env if fewer else float("inf")
    by_speed = max(point.steps_per_second for point in (fewer, more) if point) if more else float("inf")
    return min(by_time, by_speed)


def by_division(grid: Grid) -> list[list[Cut]]:
    """The cuts of a grid, grouped by division; those of a group differ only in their environments."""
    parts: dict[tuple[str, int], list[Cut]] = {}
    for cut in grid:
        parts.setdefault(cut.division, []).append(cut)
    return list(parts.values())


def saturation(before: ProfilePoint, after: ProfilePoint, standard_errors: float = 0.0) -> float:
    """Sat: relative gain in speed over relative growth of memory (Algorithm 2, lines 15 to 17).

    With k `standard_errors` the gain is the largest that the noise allows: T' (1 + k e') / (T (1 - k e)) - 1, where T
    and T' are the speeds before and after, and e and e' their `relative_error`.

    If memory does not grow, the printed Sat divides by zero; here any gain then pays (infinity). If speed and memory
    both fall, the printed Sat is positive; here a fall of speed is saturation.
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
    """The point with a relative error: its own, else that of the point before, else `ASSUMED_ERROR`.

    One iteration gives no error of its own. It lasts as long as the many of a smaller point, so it is no noisier.
    """
    if point.relative_error:
        return point
    return point.model_copy(update={"relative_error": before.relative_error if before else ASSUMED_ERROR})


def _num_env(point: ProfilePoint) -> int:
    return point.num_env


def _cut_num_env(cut: Cut) -> int:
    return cut.num_env


def _nearest_first(cuts: Sequence[Cut], found: Sequence[ProfilePoint], worth: Worth) -> list[Cut]:
    """The cuts of a division; of several GMIs first those with about as many environments in all as the best so far."""
    if not found or cuts[0].gmis_per_gpu == 1:
        return list(cuts)
    best = max(found, key=lambda point: worth(point.cut, point.steps_per_second)).cut.uncut
    return sorted(cuts, key=lambda cut: abs(math.log(cut.uncut.num_env / best.num_env)))


def _best_guesses(
    measure: Measure, cuts: Sequence[Cut], found: Sequence[ProfilePoint], worth: Worth
) -> Iterator[ProfilePoint]:
    """The runnable points of one division, without those that cannot be better than the best of `found` and of it.

    After `IN_A_ROW` failures only fewer environments than those had are tried, and after one more failure nothing.
    """
    points: list[ProfilePoint] = []
    best = max((worth(point.cut, point.steps_per_second) for point in found), default=0.0)
    failed: list[int] = []
    for cut in cuts:
        if len(failed) >= IN_A_ROW and cut.num_env > min(failed):
            continue
        if points and worth(cut, ceiling(cut, points)) <= best:
            continue
        point = measure(cut)
        if point is None:
            continue
        if not point.runnable:
            failed.append(cut.num_env)
            if len(failed) > IN_A_ROW:
                return
            continue
        points.append(point)
        best = max(best, worth(cut, point.steps_per_second))
        yield point
