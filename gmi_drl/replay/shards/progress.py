"""How far the selections from shards have come."""

from collections.abc import Mapping
from typing import NamedTuple, Self

import torch
from torch import Tensor

from gmi_drl.replay.shards.calls import NOW


class Progress(NamedTuple):
    """What later selections depend on, the same on all ranks.

    Args:
        selections: So far.
        epochs: What was drawn against what there was.
        as_of: The call by which the last list was selected; updates go by it.
    """

    selections: int = 0
    epochs: float = 0.0
    as_of: int = NOW

    def state_dict(self) -> dict[str, Tensor]:
        """All but `as_of`, which other processes count from 0 again."""
        return {
            "selections": torch.tensor(self.selections),
            "epochs": torch.tensor(self.epochs, dtype=torch.float64),
        }

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Self:
        """What `state_dict` has returned."""
        return cls(int(state["selections"]), float(state["epochs"]))
