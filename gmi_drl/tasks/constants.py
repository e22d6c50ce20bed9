"""Fixed numbers of tasks as tensors, made once for each device. Callers share them and must not write to them."""

from functools import cache

import torch
from torch import Tensor

Ranges = tuple[tuple[float, float], ...]
"""Lower and upper limit of each joint, rad or m."""


@cache
def constant(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    """The numbers as a float32 tensor `[K]`."""
    return torch.tensor(numbers, device=device, dtype=torch.float32)


@cache
def middle_and_half(ranges: Ranges, device: torch.device) -> tuple[Tensor, Tensor]:
    """Middle and half of each joint's range, `[J]` both."""
    low, high = torch.tensor(ranges, device=device).unbind(1)
    return (low + high) / 2, (high - low) / 2
