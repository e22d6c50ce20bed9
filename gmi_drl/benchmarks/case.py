"""A benchmark case: what it measures, its sides, which are measured in turn, and the figure to compare with."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

CURVES = "curves"
"""A sample's detail that is plotted: `{label: [numbers]}` of equal length, the last list against each of the others.

Labels that end in `DOUBLINGS` have an axis of powers of two.
"""

DOUBLINGS = "(doublings)"


@dataclass(frozen=True)
class Sample:
    """One measurement of one side: `value` in the case's unit, and details (JSON).

    Reports show medians of details that are plain numbers (names end with their unit, `_s` or `_bytes`); plots show
    `CURVES`.
    """

    value: float
    details: dict[str, Any] = field(default_factory=dict)


Side = Callable[[], Sample]
"""Measures once. It does not time start-up and warm-up."""

Sides = Mapping[str, Side]
"""Sides by name. The first one is ours, or the baseline if `Case.is_baseline_first`.

A single side has no ratio. A side that is our own under another name has none, either.
"""


@dataclass(frozen=True)
class Case:
    """A benchmark case.

    Args:
        name: Name in the command (`gmi-drl bench NAME`) and of the result's file.
        claim: What it measures, in one sentence for people who do not know the code.
        unit: Unit of a sample's value, e.g. "steps/s".
        open: Sets the sides up and warms them, and takes them down. Its argument `quick` is True for the guard, which
            must take seconds.
        lower_is_better: True for times. Ratios above 1 are good for us either way.
        obstacle: Returns why this machine cannot run the case, with the remedy, or None if it can. Must be cheap:
            `--list` calls it for every case.
        reference: The paper's or the other library's own figure, as text.
        limits: Where gmi-drl does not help, or what the figure does not show.
        repeats: Rounds. In each, every side is measured once, in alternating order. Fewer than five give no interval.
        compared: False if the sides are different workloads, which have no ratios.
        is_baseline_first: True if the first side is the baseline: ratios are those of the other sides to it.
        guard: Bound of our ratio to each other side: below it, a change has broken something. None: not in the guard.
        floor: Least work of ours in the time of a loop of the calibration, so that a fall of both sides is seen. Set to
            a sixth of what an EPYC core did beside other work, because processors and other load differ (for a
            reduction to a fortieth, because its ranks wait for each other on busy cores). None if there is no guard.
    """

    name: str
    claim: str
    unit: str
    open: Callable[[bool], AbstractContextManager[Sides]]
    lower_is_better: bool = False
    obstacle: Callable[[], str | None] = lambda: None
    reference: str = ""
    limits: str = ""
    repeats: int = 5
    compared: bool = True
    is_baseline_first: bool = False
    guard: float | None = None
    floor: float | None = None
