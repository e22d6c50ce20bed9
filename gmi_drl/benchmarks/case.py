"""What a case is: a question, the sides that answer it by turns, and what the answer is compared with."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

CURVES = "curves"
"""A sample's detail that is drawn: `{label: [numbers]}` of equal length, the last against each of those before it.

Labels that end in `DOUBLINGS` have an axis of powers of two.
"""

DOUBLINGS = "(doublings)"


@dataclass(frozen=True)
class Sample:
    """One measurement of one side: `value` in the case's unit, and what a reader may want to know about it (JSON).

    Of the details, reports show the medians of plain numbers (named with their unit, `_s` or `_bytes`), plots `CURVES`.
    """

    value: float
    details: dict[str, Any] = field(default_factory=dict)


Side = Callable[[], Sample]
"""Measures once. Everything that is not to be measured (start-up, warm-up) lies before or outside of what it times."""

Sides = Mapping[str, Side]
"""By name, ours first, or the baseline (`Case.is_baseline_first`).

One side alone has no ratio, nor has ours to itself under another name.
"""


@dataclass(frozen=True)
class Case:
    """A figure of this project.

    Args:
        name: Of the command (`gmi-drl bench NAME`) and of the result's file.
        claim: What it measures, in one sentence for people who do not know the code.
        unit: Of a sample's value, e.g. "steps/s".
        open: Sets the sides up, warm, and takes them down. Its argument is True for the guard, which has seconds.
        lower_is_better: For times. Ratios are such that above 1 is good for us either way.
        obstacle: Why this machine cannot run it, with the remedy; None if it can. Cheap: `--list` asks every case.
        reference: The paper's or the peer's own figure, as text.
        limits: Where gmi-drl does not help, or what the figure does not say.
        repeats: Rounds; in each every side is measured once, in alternating order. Fewer than five give no interval.
        compared: False where sides are different workloads: they have no ratios.
        is_baseline_first: Whether the first side is no choice of ours but what every other one is compared with: ratios
            are theirs to it.
        guard: A ratio to each other side below which a change has broken something; None keeps it out of the guard.
        floor: As much of our work as must be done in the time of a loop of the calibration, lest both sides fall
            unseen. Set to a sixth of what an EPYC core did between other work (a reduction's to a fortieth: its ranks
            wait for each other's turns on busy cores), because processors and neighbours differ. None where there is
            no guard.
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
