"""ELU for processors."""

from typing import Any

import torch
from torch import Tensor, nn

LARGE = 2**15
"""Numbers from which four quick passes take less time than torch's one."""


class Elu(nn.Module):
    """ELU in place: `x` where positive, `exp(x) - 1` elsewhere. Its backward pass reads the result.

    torch's own takes an `expm1` for every number, on a processor as long as the matrix product that follows it. Here
    it is an `exp` of several numbers at a time, 6e-8 away from it at most.
    """

    def forward(self, x: Tensor) -> Tensor:
        """ELU of `x`, of any shape; `x` is overwritten."""
        if not (x.requires_grad and torch.is_grad_enabled() and _is_large(x)):
            return elu_(x)
        result: Tensor = _LargeElu.apply(x)  # type: ignore[no-untyped-call]
        return result


def elu_(x: Tensor) -> Tensor:
    """The same of numbers that no gradient is asked of."""
    if not _is_large(x):
        return nn.functional.elu(x, inplace=True)
    negative = x.clamp(max=0).exp_().sub_(1)
    return torch.maximum(x, negative, out=x)  # exp(x) - 1 >= x, so where x <= 0 this is the exponential


def _is_large(x: Tensor) -> bool:
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
