"""The record by which an agent announces steps of experience to a trainer."""

from collections.abc import Callable
from typing import NamedTuple


class Record(NamedTuple):
    """Steps of one kind of a rollout, announced at once.

    On one host its five numbers go through a ring, between hosts before the data of a piece.

    Attributes:
        place: The number of the place that holds them.
        rollout: The agent's own number of the rollout (`AgentEnd.rollouts`).
        kind: The index of the kind.
        first: The first step.
        last: The last step + 1.
    """

    place: int
    rollout: int
    kind: int
    first: int
    last: int


Send = Callable[[int, Record], None]
"""Sends a record to a trainer, by rank."""
