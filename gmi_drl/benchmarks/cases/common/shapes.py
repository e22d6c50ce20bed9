"""What sweeps of trainings vary, and how the best is found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

ALL_TRIED = "num_env"
"""The number of a shape of which all choices are tried: rates go up and down with it."""


@dataclass(frozen=True)
class Shape:
    """What a sweep of ours varies: environments in all, actors, trainers. Cores are shared where they are fewer."""

    num_env: int
    actors: int = 1
    trainers: int = 1

    @property
    def processes(self) -> int:
        """With environments."""
        return self.actors

    def __str__(self) -> str:
        return f"{self.num_env} environments, {self.actors} actors, {self.trainers} trainers"


@dataclass(frozen=True)
class PeerShape:
    """What a sweep of a peer varies: environments in all, processes with them; of RLlib threads or learners."""

    num_env: int
    runners: int = 1
    threads: int = 1
    learners: int = 1

    @property
    def processes(self) -> int:
        """With environments."""
        return self.runners

    def __str__(self) -> str:
        learns = f"{self.threads} threads, {self.learners} learners"
        return f"{self.num_env} environments, {self.runners} processes, {learns}"


def climbed(
    first: Any, choices: Mapping[str, Sequence[int]], measure: Callable[[Any], float]
) -> tuple[Any, dict[str, float]]:
    """The best shape, and all rates by shape. One number after the other rises from `first` on until no rate grows.

    Args:
        first: A dataclass, whose numbers are the first of `choices`.
        choices: What the numbers may be, from small to large.
        measure: Gives the rate of a shape.
    """
    best, rate_of = first, {first: measure(first)}
    for name, values in choices.items():
        for value in values[1:]:
            shape = replace(best, **{name: value})
            rate_of[shape] = measure(shape)
            if rate_of[shape] > rate_of[best]:
                best = shape
            elif name != ALL_TRIED:
                break
    return best, {str(shape): rate for shape, rate in rate_of.items()}
