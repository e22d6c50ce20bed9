"""A batch of rollouts from agents on other GMIs."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import torch
from torch import Tensor

from gmi_drl.layout.experience import RolloutForm


@dataclass(kw_only=True)
class RolloutBatch:
    """R rollouts of one form, each tensor `[R, ...]`, for any learner. Their policies may be different versions.

    The fields are the kinds of `layout.experience.RolloutForm`; see there.

    Attributes:
        obs: Raw observations `[R, T, N, O]`: the learner scales them by its own statistics.
        action: `[R, T, N, A]`.
        reward: Of the task, not scaled, `[R, T, N]`.
        done: 1 where an episode ended, `[R, T, N]`.
        valid: 0 where the environment went wrong, else 1, `[R, T, N]`.
        last_obs: Raw observations after the last step, `[R, N, O]`.
        delta: Of the normaliser, from the raw observations, float64 `[R, 1 + 2 O]`.
        sums: As in `algo.rollout.Rollout`, float64 `[R, 5 + K]`.
        facts: Numbers that the agent reports with a rollout (`layout.experience.FACTS`), float64 `[R, NUM_FACTS]`.
    """

    obs: Tensor
    action: Tensor
    reward: Tensor
    done: Tensor
    valid: Tensor
    last_obs: Tensor
    delta: Tensor
    sums: Tensor
    facts: Tensor

    @classmethod
    def empty(cls, form: RolloutForm, rollouts: int, device: torch.device) -> Self:
        """A batch of zeros."""
        return cls.over(torch.zeros(form.offsets(rollouts)[-1], dtype=torch.uint8, device=device), form, rollouts)

    @classmethod
    def over(cls, memory: Tensor, form: RolloutForm, rollouts: int) -> Self:
        """Views into memory, uint8 `[form.offsets(rollouts)[-1]]` or longer, in which kinds follow each other."""
        parts = pairwise(form.offsets(rollouts))
        return cls(
            **{
                kind.name: memory[begin : begin + rollouts * kind.nbytes]
                .view(getattr(torch, kind.dtype))
                .view(rollouts, *kind.shape)
                for kind, (begin, _) in zip(form.kinds, parts, strict=True)
            }
        )


@dataclass(kw_only=True)
class ExperienceBatch(RolloutBatch):
    """A batch for learners of policy and values.

    Attributes:
        log_prob: Of the actions, under the policy that acted, `[R, T, N]`.
        bootstrap: The value that follows a time-out by the agent that acted, 0 elsewhere, `[R, T, N]`.
        state: Of the memories of the policy that acted, at the start of each sequence of L steps and after the last,
            `[R, T / L + 1, N, S]`; None without memories.
    """

    log_prob: Tensor
    bootstrap: Tensor
    state: Tensor | None = None


@dataclass(kw_only=True)
class ReplayBatch(RolloutBatch):
    """A batch for learners from replay.

    Attributes:
        terminated: 1 where the task itself ended an episode, `[R, T, N]`.
        next_obs: Raw observations after each step, before a reset, as `obs`; None if only `obs` has them.
    """

    terminated: Tensor
    next_obs: Tensor | None = None
