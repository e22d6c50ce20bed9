"""What an agent tells its trainers of: steps of experience that lie where they are learnt from."""

from collections.abc import Callable
from typing import NamedTuple


class Record(NamedTuple):
    """Steps of one kind of a rollout, told at once: five numbers of a ring, and between hosts those of a piece.

    Attributes:
        place: Where they are, by its number, from 0 and without end.
        rollout: The agent's own number of the rollout (`AgentEnd.rollouts`).
        kind: By its number among the kinds.
        first: The first step.
        last: The last step + 1.
    """

    place: int
    rollout: int
    kind: int
    first: int
    last: int


Send = Callable[[int, Record], None]
"""Tell a trainer, by rank."""
