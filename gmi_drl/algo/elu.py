"""ELU, faster than torch's on CPUs."""

from typing import Any

import torch
from torch import Tensor, nn

LARGE = 2**15
"""Size from which our four quick passes take less time than torch's one."""


class Elu(nn.Module):
    """ELU in place: `x` where positive, `exp(x) - 1` elsewhere. Its backward pass reads the result.

    torch's computes `expm1` of single numbers, which on a CPU takes as long as the matrix product after it. This one
    computes a vectorised `exp`, with a difference of at most 6e-8 in float32 and of 2^-8 in bfloat16.
    """

    def forward(self, x: Tensor) -> Tensor:
        """ELU of `x`, of any shape; `x` is overwritten."""
        if not (x.requires_grad and torch.is_grad_enabled() and is_large(x)):
            return elu_(x)
        result: Tensor = _LargeElu.apply(x)  # type: ignore[no-untyped-call]
        return result


def elu_(x: Tensor) -> Tensor:
    """ELU in place of numbers without gradients."""
    if not is_large(x):
        return nn.functional.elu(x, inplace=True)
    negative = x.clamp(max=0).exp_().sub_(1)
    return torch.maximum(x, negative, out=x)  # exp(x) - 1 >= x, so where x <= 0 this is the exponential


def elu_with_slope_(x: Tensor, slope: Tensor, scratch: Tensor) -> None:
    """ELU in place, and its slope: the exponential, which is 1 where `x` is positive. All have one shape."""
    torch.clamp(x, max=0, out=slope).exp_()
    torch.maximum(x, torch.sub(slope, 1, out=scratch), out=x)


def is_large(x: Tensor) -> bool:
    """Whether ELU of `x` is computed by several passes."""
    return x.device.type == "cpu" and x.numel() >= LARGE


class _LargeElu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result = elu_(x)
        ctx.mark_dirty(x)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        return torch.ops.aten.elu_backward(gradient, 1, 1, 1, True, result)  # type: ignore[no-any-return]
