"""The link of a group of one process."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


class AloneLink:
    """A `MovingLink` without another end."""

    rank, size = 0, 1
    device = torch.device("cpu")

    def move_several(self, sends: Mapping[int, Sequence[Tensor]], receives: Mapping[int, Sequence[Tensor]]) -> None:
        """Nothing is to be moved."""

    def close(self) -> None:
        """Nobody is left."""
