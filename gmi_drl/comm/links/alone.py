"""The link of a group of one process."""

from torch import Tensor


class AloneLink:
    """A `MovingLink` without another end."""

    rank, size = 0, 1

    def move(self, sends: dict[int, Tensor], receives: dict[int, Tensor]) -> None:
        """Nothing is to be moved."""

    def close(self) -> None:
        """Nobody is left."""
