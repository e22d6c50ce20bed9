"""What a plan makes the most of."""

from collections.abc import Iterable
from typing import Literal, get_args

from gmi_drl.scheduler.search import Candidate

Objective = Literal["steps", "learning"]
"""Steps per second, as the paper; or what they teach: steps per second times their efficiency."""

KINDS: dict[Objective, str] = {"steps": "steps/s", "learning": "useful steps/s"}
"""What candidates are compared by."""

OBJECTIVES: tuple[Objective, ...] = get_args(Objective)


def worth(candidate: Candidate, objective: Objective) -> float:
    """By what candidates are ranked. One whose efficiency is not known teaches nothing that is known."""
    if objective == "steps":
        return candidate.steps_per_second
    return candidate.useful_steps_per_second or 0.0


def ranked(candidates: Iterable[Candidate], objective: Objective) -> list[Candidate]:
    """Best first; what ran together goes before what is only expected."""
    return sorted(candidates, key=lambda one: (one.confirmed is None, -worth(one, objective)))
