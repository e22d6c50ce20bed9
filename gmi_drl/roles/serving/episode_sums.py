"""Counts the episodes of served environments."""

from typing import Any

import torch
from torch import Tensor


class EpisodeSums:
    """Sums over the episodes that have ended, without steps that begin one, and without those that went wrong.

    Args:
        num_env: N.
        device: Of the tensors.

    Attributes:
        sums: Float64 `[4]`: the number of episodes, their returns, their lengths, and the number of further episodes
            that went wrong.
    """

    def __init__(self, num_env: int, device: torch.device) -> None:
        self._total, self._length = torch.zeros(2, num_env, dtype=torch.float64, device=device)
        self.sums = torch.zeros(4, dtype=torch.float64, device=device)

    def add(self, reward: Tensor, done: Tensor, valid: Tensor, bad: Tensor) -> None:
        """Add a step `[N]` of all environments, as `tasks.task.own_outcome` and `Task.step` tell it."""
        self._total += reward * valid
        self._length += valid
        ended = done & (valid | bad)
        whole = ended & ~bad
        so_far = torch.stack((torch.ones_like(self._total), self._total, self._length))
        self.sums[:3] += (so_far * whole).sum(1)
        self.sums[3] += (ended & bad).sum()
        self._total *= ~ended
        self._length *= ~ended


def totals(sums: Tensor) -> dict[str, Any]:
    """The numbers of `EpisodeSums.sums` by name, as results have them (JSON)."""
    episodes, returns, lengths, bad = sums.tolist()
    return {"episodes": int(episodes), "return_sum": returns, "length_sum": lengths, "bad": int(bad)}
