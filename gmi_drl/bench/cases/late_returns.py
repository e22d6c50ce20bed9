"""What a training returned: the mean over its last steps, because that of a single moment is noisy, and the curve."""

import statistics
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gmi_drl.bench.case import CURVES, Sample
from gmi_drl.bench.cases.learning import SECONDS, STEPS, phases_of, wall_s
from gmi_drl.errors import GmiError

if TYPE_CHECKING:
    from gmi_drl.run.metrics import Row

LATE = 0.1
"""The share of the steps, at the end, whose returns count."""


def of_rows(seed: int, rows: "list[Row]") -> Sample:
    """That of a training of ours, by its metrics."""
    told = [(row["env_steps"], s, row["return_mean"]) for row, s in zip(rows, wall_s(rows), strict=True)]
    return of_told(told, {"seed": seed, **phases_of(rows)})


def of_told(told: Iterable[tuple[int, float, float | None]], details: Mapping[str, object]) -> Sample:
    """By environment steps, seconds and return (none before the first episode has ended) of each update.

    Raises:
        GmiError: no episode has ended at all.
    """
    known = [(steps, seconds, round(mean, 2)) for steps, seconds, mean in told if mean is not None]
    if not known:
        raise GmiError("no episode ended in the whole training: this machine is too slow for the case")
    steps, seconds, returns = map(list, zip(*known, strict=True))
    late = [mean for at, _, mean in known if at > (1 - LATE) * known[-1][0]]
    curves = {STEPS: steps, SECONDS: seconds, "return of an episode": returns}
    return Sample(statistics.fmean(late), {**details, CURVES: curves})
