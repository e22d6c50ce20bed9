"""Algorithm 2 of the paper with its printed stopping rule: a baseline for `gmi-drl plan`."""

from collections.abc import Callable, Iterator, Sequence

from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler.candidate import Candidate
from gmi_drl.scheduler.exploration import SATURATION_THRESHOLD, Grid, Measure, by_division, saturation
from gmi_drl.scheduler.profile import ProfilePoint


def algorithm_2(
    measure: Measure,
    grid: Grid,
    predict: Callable[[ProfilePoint], Candidate],
    saturation_threshold: float = SATURATION_THRESHOLD,
) -> list[Candidate]:
    """Algorithm 2 (paper section 5.2): for each number of GMIs per device raise num_env until a GMI saturates.

    Plans do not use it: the first saturated step ends the walk of a size, even if only noise made it look saturated, so
    better points may stay unmeasured (`search` is more patient). `gmi-drl bench algorithm_2_small` measures what that
    costs.

    Three things differ from the printed algorithm. There the first runnable num_env of a size starts the comparison and
    can never be chosen; here it is a candidate. The point that shows saturation is a candidate, too. And Sat is defined
    if memory does not grow or speed falls (`saturation`).

    Args:
        measure: Measures one GMI.
        grid: The cuts to try.
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
