"""The one exchange of an iteration: what all GMIs of a group must know alike."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import reduce
from typing import Any, Self

import torch
from torch import Tensor

from gmi_drl.algo.normaliser import merge_moments
from gmi_drl.comm.group import Group
from gmi_drl.errors import GmiError

NOTHING = torch.zeros(0, dtype=torch.float64)
"""What a learner tells the others that need not know anything."""


class Decision(IntEnum):
    """Rank 0's decision for the whole group, in effect everywhere at the end of the same iteration."""

    GO_ON = 0
    STOP = 1
    SAVE = 2
    """Go on, and save a checkpoint."""


@dataclass(frozen=True)
class IterationStats:
    """An iteration of the whole group.

    Attributes:
        decision: Of rank 0.
        reward_sum: Sum over the iteration, as are the four below it and `term_sums`; see `Rollout.sums`.
        term_sums: Of the terms of the reward; empty if the task does not report them.
        deltas: Of the normalisers, `[ranks, 1 + 2 O]`.
        advantage_mean: Of the valid transitions.
        advantage_std: As `advantage_mean`.
        told: What each rank's learner tells the others, float64 `[ranks, K]`, if learners tell something.
        metrics: Further entries of the row of metrics.
    """

    decision: Decision
    reward_sum: float
    episodes: float
    return_sum: float
    length_sum: float
    bad_environments: float
    term_sums: tuple[float, ...]
    deltas: Tensor
    advantage_mean: float = 0.0
    advantage_std: float = 1.0
    told: Tensor = NOTHING
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_sums(cls, decision: float, sums: Tensor, deltas: Tensor, **others: Any) -> Self:
        """The statistics with these sums over all GMIs, `[5 + K]`, in the order of `Rollout.sums`."""
        reward_sum, episodes, return_sum, length_sum, bad_environments, *terms = sums.tolist()
        sums_by_name = reward_sum, episodes, return_sum, length_sum, bad_environments, tuple(terms)
        return cls(Decision(int(decision)), *sums_by_name, deltas, **others)


def exchange_stats(group: Group, decision: Decision, sums: Tensor, advantages: Tensor, delta: Tensor) -> IterationStats:
    """Exchange the statistics of each GMI's iteration. Waits for the device, once.

    Args:
        group: The GMIs that train together; all call this.
        decision: Of this GMI; only rank 0's counts.
        sums: As `Rollout.sums`, float64 `[5 + K]`, of the same length on all GMIs.
        advantages: Count, mean and M2, float64 `[3]`.
        delta: Of the normaliser, float64, on the device of `sums` and `advantages`.

    Raises:
        GmiError: if no GMI has a valid transition.
    """
    own_decision = torch.tensor([float(decision)], dtype=torch.float64)
    table = group.gather(torch.cat((own_decision, torch.cat((sums, advantages, delta)).cpu())))
    lengths = [1, len(sums), len(advantages), len(delta)]
    decisions, all_sums, all_advantages, deltas = torch.split(table, lengths, dim=1)
    if not (all_advantages[:, 0] > 0).any():
        raise GmiError(
            "every environment of every GMI went wrong in all steps of an iteration: the task or the policy is broken"
        )
    mean, std = mean_and_std(all_advantages)
    return IterationStats.from_sums(
        decisions[0].item(), all_sums.sum(0), deltas, advantage_mean=mean, advantage_std=std
    )


def mean_and_std(moments: Tensor) -> tuple[float, float]:
    """Mean and standard deviation of numbers by their moments `[ranks, 3]`; 0 and 1 if there are none."""
    rows = [row for row in moments if row[0] > 0]
    if not rows:
        return 0.0, 1.0
    count, mean, m2 = reduce(merge_moments, rows).tolist()
    return mean, math.sqrt(m2 / max(count - 1, 1))
