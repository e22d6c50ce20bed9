"""Algorithm 2 of the paper with the stop that it prints: a baseline for what `gmi-drl plan` does."""

from collections.abc import Callable, Iterator, Sequence

from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler.profile import ProfilePoint
from gmi_drl.scheduler.search import SATURATION_THRESHOLD, Candidate, Grid, Measure, by_division, saturation


def algorithm_2(
    measure: Measure,
    grid: Grid,
    predict: Callable[[ProfilePoint], Candidate],
    saturation_threshold: float = SATURATION_THRESHOLD,
) -> list[Candidate]:
    """Algorithm 2 (paper section 5.2): for each number of GMIs per device raise num_env until a GMI saturates.

    Plans are not made with it: the first step that is saturated ends the walk of a size, be it by noise, so better
    points may stay unseen (`search` is more patient, and of a profile every point counts). It remains to tell what
    that stop costs: `gmi-drl bench algorithm_2_small`.

    Three things are mended. As printed, the first runnable num_env of a size only primes the comparison and can never
    be chosen; here it is a candidate. The point that shows saturation has been measured, so it is a candidate, too.
    And Sat is defined where memory does not grow or speed falls (`saturation`).

    Args:
        measure: Tells how one GMI runs.
        grid: What to try.
        predict: Predicts all GMIs on all devices from the point of one (`estimate`, line 23).
        saturation_threshold: A GMI is saturated when Sat falls below it.

    Returns:
        The candidates, best first.
    """
    walks = (_walk(measure, cuts, saturation_threshold) for cuts in by_division(grid))
    return sorted((predict(point) for walk in walks for point in walk), key=lambda candidate: -candidate.expected)


def _walk(measure: Measure, cuts: Sequence[Cut], threshold: float) -> Iterator[ProfilePoint]:
    """The runnable points of one size, up to and with the one that shows saturation."""
    before: ProfilePoint | None = None
    for cut in cuts:
        point = measure(cut)
        if point is None or not point.runnable:
            continue
        yield point
        if before is not None and saturation(before, point) < threshold:
            return
        before = point
