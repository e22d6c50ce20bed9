"""Windows of n steps: whether they may be drawn, their rewards, and what follows them."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

ENDED, TERMINATED, VALID = 1, 2, 4
"""Bits of a step: an episode ended with it, by the task itself; it is a transition."""


@dataclass(frozen=True)
class Windows:
    """B windows, each cut after the first step that ends an episode.

    Args:
        is_valid: Whether a window may be drawn, bool `[B]`.
        reward: Sum of gamma ** i x reward, float32 `[B]`.
        discount: gamma to the power of `steps`; 0 if the task ended the episode; float32 `[B]`.
        steps: In the window, int64 `[B]`.
    """

    is_valid: Tensor
    reward: Tensor
    discount: Tensor
    steps: Tensor


def flags_of(ended: Tensor, terminated: Tensor, valid: Tensor) -> Tensor:
    """The bits of steps, uint8, from bools of the same shape."""
    kind = torch.uint8
    ends = torch.add(ended.view(kind), terminated.view(kind), alpha=TERMINATED)
    return ends.add_(valid.view(kind), alpha=VALID)


def evaluate(reward: Tensor, flags: Tensor, gamma: float, *, knows_ends: bool) -> Windows:
    """Evaluate windows of n steps.

    A window is valid if all its steps are transitions, and what follows its last step is known or not needed.

    Args:
        reward: float32 `[B, n]`.
        flags: uint8 `[B, n]`.
        gamma: Discount of a step.
        knows_ends: Whether the last observation of an episode that was cut off is known.
    """
    if reward.shape[1] == 1:
        may_be_drawn, discounts, one = _of_one_step(gamma, knows_ends, reward.device)
        if reward.device.type == "cpu":
            kind, found = flags.numpy()[:, 0], torch.from_numpy(reward.numpy()[:, 0].copy())
            is_valid, discount = (torch.from_numpy(table.numpy().take(kind)) for table in (may_be_drawn, discounts))
            return Windows(is_valid, found, discount, one.expand(len(kind)))
        kinds, reward = flags[:, 0].to(torch.int64), reward[:, 0].clone()
        is_valid, discount = may_be_drawn.index_select(0, kinds), discounts.index_select(0, kinds)
        return Windows(is_valid, reward, discount, one.expand(len(kinds)))
    ended = (flags & ENDED) > 0
    valid = (flags & VALID) > 0
    terminated = (flags & TERMINATED) > 0
    is_inside = (ended.cumsum(1) - ended.to(torch.int64)) == 0
    is_valid = (valid | ~is_inside).all(1)
    if not knows_ends:
        is_valid &= ~(ended & ~terminated & is_inside).any(1)
    steps = is_inside.sum(1)
    goes_on = ~(terminated & ended & is_inside).any(1)
    return Windows(is_valid, *n_step_return(reward, steps, goes_on, gamma), steps)


def n_step_return(reward: Tensor, steps: Tensor, goes_on: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """The discounted rewards of windows, and the discount of what follows them.

    Args:
        reward: float32 `[B, n]`.
        steps: Those of each window that count, the first ones, int64 `[B]`.
        goes_on: False where the task ended the episode within them, bool `[B]`.
        gamma: Discount of a step.

    Returns:
        float32 `[B]` each.
    """
    reach = torch.arange(reward.shape[1], device=reward.device)
    powers = gamma ** reach.to(torch.float32)
    counted = (reward * powers * (reach < steps[:, None])).sum(1)
    return counted, gamma ** steps.to(torch.float32) * goes_on


@lru_cache
def _of_one_step(gamma: float, knows_ends: bool, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Whether a window of one step may be drawn, and its discount, by the step's flags, `[8]` each, and its length."""
    flags = torch.arange(8, device=device)
    terminated, is_valid = (flags & TERMINATED) > 0, (flags & VALID) > 0
    if not knows_ends:
        is_valid &= terminated | ((flags & ENDED) == 0)
    return is_valid, gamma * (~terminated).to(torch.float32), torch.ones(1, dtype=torch.int64, device=device)
