"""Backpropagation without autograd: gradients are written directly into the bucket."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gmi_drl.algo.elu import Elu, elu_, elu_with_slope_, is_large

_FORWARD: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {Elu: elu_, nn.ReLU: torch.relu_, nn.Tanh: torch.tanh_}
_BACKWARD: dict[type[nn.Module], Callable[[Tensor, Tensor], Tensor]] = {
    Elu: lambda gradient, result: torch.ops.aten.elu_backward(gradient, 1, 1, 1, True, result),
    nn.ReLU: lambda gradient, result: torch.ops.aten.threshold_backward(gradient, result, 0),
    nn.Tanh: lambda gradient, result: torch.ops.aten.tanh_backward(gradient, result),
}
"""The gradient of an activation's input, from the gradient of its result and the result."""


class _Memory(NamedTuple):
    """Of a layer, each `[B, out]`; None where each call allocates its own.

    Args:
        result: Of the layer.
        gradient: With respect to the result.
        slope: Of its ELU, where that is computed by several passes anyway.
    """

    result: Tensor | None = None
    gradient: Tensor | None = None
    slope: Tensor | None = None


class Backprop:
    """Forward and backward pass of a network of `networks.mlp`. Gradients are autograd's to rounding.

    Autograd allocates each gradient, adds it to a bucket that was zeroed before, and searches its graph. Here a CPU
    uses the same memory again, since new memory is in no cache, and keeps the slope of ELU, which forward has anyway.

    Args:
        network: With parameters and gradients that are views made by `FlatParameters`.
        bf16: Whether all layers but the last multiply in bfloat16. They keep results and gradients of results in it.
    """

    def __init__(self, network: nn.Sequential, *, bf16: bool = False) -> None:
        self._linear = [layer for layer in network if isinstance(layer, nn.Linear)]
        inner = torch.bfloat16 if bf16 else torch.float32
        self._types = [*(inner for _ in self._linear[1:]), torch.float32]
        activation = next((type(layer) for layer in network if not isinstance(layer, nn.Linear)), Elu)
        self._has_elu = activation is Elu
        self._activate_, self._activate_back = _FORWARD[activation], _BACKWARD[activation]
        self._memory = [_Memory() for _ in self._linear]
        self._weights: list[Tensor] = []

    def forward(self, x: Tensor) -> list[Tensor]:
        """What each layer reads, `[B, in]`, and the result `[B, out]`. The next call writes over them."""
        self._make_memory(x)
        self._weights = [layer.weight.to(kind) for layer, kind in zip(self._linear, self._types, strict=True)]
        outputs = []
        for layer, weight, memory in zip(self._linear, self._weights, self._memory, strict=True):
            x = x.to(weight.dtype)
            outputs.append(x)
            x = torch.addmm(layer.bias.to(weight.dtype), x, weight.t(), out=memory.result)
            if layer is not self._linear[-1]:
                self._activate(x, memory)
        return [*outputs, x]

    def backward(self, outputs: list[Tensor], gradient: Tensor) -> None:
        """Overwrite the gradients of the parameters.

        Args:
            outputs: Of the last `forward`, for the same parameters; all rows, or the first ones.
            gradient: Of the loss with respect to the last of them, `[B, out]`.
        """
        for number in reversed(range(len(self._linear))):
            layer, weight, x = self._linear[number], self._weights[number], outputs[number]
            assert layer.weight.grad is not None and layer.bias.grad is not None  # views of the bucket
            gradient = gradient.to(weight.dtype)
            if weight.dtype == torch.float32:
                torch.mm(x.t(), gradient, out=layer.weight.grad.t())
                torch.sum(gradient, 0, out=layer.bias.grad)
            else:  # sums in float32, rounded, then in the bucket's type
                layer.weight.grad.t().copy_(torch.mm(x.t(), gradient))
                layer.bias.grad.copy_(gradient.sum(0))
            if number:
                memory, rows = self._memory[number - 1], len(gradient)
                kept = memory.gradient is not None and memory.gradient.dtype == weight.dtype
                out = memory.gradient[:rows] if memory.gradient is not None and kept else None
                gradient = torch.mm(gradient, weight, out=out)
                if memory.slope is None:
                    gradient = self._activate_back(gradient, x)
                else:
                    gradient.mul_(memory.slope[:rows])

    def _activate(self, x: Tensor, memory: _Memory) -> None:
        if memory.slope is None or memory.gradient is None:
            self._activate_(x)
        else:
            elu_with_slope_(x, memory.slope, memory.gradient)

    def _make_memory(self, x: Tensor) -> None:
        """Keep memory for a batch `[B, in]` on a CPU. On a GPU graphs keep what they allocate."""
        had = self._memory[0].result
        if x.device.type != "cpu" or (had is not None and len(had) == len(x)):
            return
        self._memory = []
        for layer, kind in zip(self._linear, self._types, strict=True):
            result, gradient, slope = x.new_empty(3, len(x), layer.out_features, dtype=kind).unbind()
            self._memory.append(_Memory(result, gradient, slope if self._has_elu and is_large(result) else None))
