"""What all GMIs of a group must know alike, once per iteration, in one exchange."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from gmi_drl.algo.normaliser import merge_moments
from gmi_drl.comm.group import Group
from gmi_drl.errors import GmiError


class Decision(IntEnum):
    """What rank 0 decides for all: it takes effect at the end of the same iteration everywhere."""

    GO_ON = 0
    STOP = 1


@dataclass(frozen=True)
class IterationStats:
    """Of the whole group: the word of rank 0, sums over the iteration, advantage statistics, normaliser deltas.

    `term_sums` are those of the terms of the reward, where they are told; `told` is what else a row of metrics has.
    """

    word: Decision
    reward_sum: float
    episodes: float
    return_sum: float
    length_sum: float
    bad_worlds: float
    term_sums: tuple[float, ...]
    advantage_mean: float
    advantage_std: float
    deltas: Tensor
    told: Mapping[str, Any] = field(default_factory=dict)


def exchange_stats(group: Group, word: Decision, sums: Tensor, advantages: Tensor, delta: Tensor) -> IterationStats:
    """Exchange what each GMI saw. Waits for the device, once.

    Args:
        group: Who exchange.
        word: What this GMI would say; only rank 0's counts.
        sums: Reward sum, episodes, return sum, length sum, bad worlds, then the K terms of the reward, as many on all
            GMIs: float64 `[5 + K]`.
        advantages: Count, mean and M2, float64 `[3]`.
        delta: The normaliser's, float64, on the device of the others.
    """
    said = torch.tensor([float(word)], dtype=torch.float64)
    table = group.gather(torch.cat((said, torch.cat((sums, advantages, delta)).cpu())))
    _, of_sums, of_advantages, deltas = torch.split(table, [1, len(sums), len(advantages), len(delta)], dim=1)
    moments = [row for row in of_advantages if row[0] > 0]
    if not moments:
        raise GmiError("every world of every GMI went wrong in all steps of an iteration: task or policy are broken")
    count, mean, m2 = reduce(merge_moments, moments).tolist()
    std = math.sqrt(m2 / max(count - 1, 1))
    reward_sum, episodes, return_sum, length_sum, bad_worlds, *terms = of_sums.sum(0).tolist()
    word = Decision(int(table[0, 0]))
    return IterationStats(
        word, reward_sum, episodes, return_sum, length_sum, bad_worlds, tuple(terms), mean, std, deltas
    )
