"""Seconds that may be spent on measuring."""

import time


class Budget:
    """Counts down from its making.

    Args:
        seconds: In all; infinity for as long as it takes.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Seconds that are left, never below 0."""
        return max(0.0, self._end - time.monotonic())

    def part(self, fraction: float) -> "Budget":
        """A budget of its own with a part of what is left."""
        return Budget(self.left_s * fraction)
