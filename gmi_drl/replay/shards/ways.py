"""The ways in which trajectories are selected from shards."""

from dataclasses import dataclass
from typing import TypeAlias, get_args

from gmi_drl.errors import UsageError


@dataclass(frozen=True)
class Uniform:
    """Each trajectory with the same probability, with replacement."""


@dataclass(frozen=True)
class Weighted:
    """With the probability p**C / sum of p**C, with replacement. If all priorities are 0, each is as likely.

    Args:
        exponent: C, 0 or more. A priority of 0 is never drawn beside others, also with C = 0.

    Raises:
        UsageError: if the exponent is negative or no number.
    """

    exponent: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.exponent < float("inf"):
            raise UsageError(f"the exponent of priorities must be 0 or more, not {self.exponent}")


@dataclass(frozen=True)
class TopK:
    """Those of the highest priorities, the highest first; of equal ones those of lower ranks."""


@dataclass(frozen=True)
class Fifo:
    """The oldest ones, the oldest first."""


@dataclass(frozen=True)
class Lifo:
    """The newest ones, the newest first."""


Way: TypeAlias = Uniform | Weighted | TopK | Fifo | Lifo

RANDOM = (Uniform, Weighted)
"""Ways that draw with replacement, unless they are asked for distinct trajectories."""


def problem_of(count: object, way: object, by_steps: bool) -> str | None:
    """What is wrong with a request; None if nothing is."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        return f"the number of selected trajectories is an integer of 1 or more, not {count!r}"
    if not isinstance(way, Way):
        return f"trajectories are selected by {', '.join(kind.__name__ for kind in get_args(Way))}, not {way!r}"
    if by_steps and not isinstance(way, RANDOM):
        return f"by_steps goes with Uniform() and Weighted(), not {way}"
    return None
