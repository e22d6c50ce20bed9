"""The objective of a plan: what it maximises."""

from collections.abc import Iterable
from typing import Literal

from gmi_drl.scheduler.candidate import Candidate

Objective = Literal["steps", "learning"]
"""`steps`: steps per second, as in the paper. `learning`: steps per second times their efficiency."""

KINDS: dict[Objective, str] = {"steps": "steps/s", "learning": "useful steps/s"}
"""The unit of each objective."""


def worth(candidate: Candidate, objective: Objective) -> float:
    """The value by which candidates are ranked. For `learning` it is 0 if the efficiency is not known."""
    if objective == "steps":
        return candidate.steps_per_second
    return candidate.useful_steps_per_second or 0.0


def ranked(candidates: Iterable[Candidate], objective: Objective) -> list[Candidate]:
    """Candidates, best first. Those confirmed by a run rank before those that are only predicted."""
    return sorted(candidates, key=lambda one: (one.confirmed is None, -worth(one, objective)))
