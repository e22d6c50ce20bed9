"""Backpropagation without autograd: gradients are written directly into the bucket."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gmi_drl.algo.elu import Elu, elu_

_FORWARD: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {Elu: elu_, nn.ReLU: torch.relu_, nn.Tanh: torch.tanh_}
_BACKWARD: dict[type[nn.Module], Callable[[Tensor, Tensor], Tensor]] = {
    Elu: lambda gradient, result: torch.ops.aten.elu_backward(gradient, 1, 1, 1, True, result),
    nn.ReLU: lambda gradient, result: torch.ops.aten.threshold_backward(gradient, result, 0),
    nn.Tanh: lambda gradient, result: torch.ops.aten.tanh_backward(gradient, result),
}
"""The gradient of an activation's input, from the gradient of its result and the result."""


class Backprop:
    """Forward and backward pass of a network of `networks.mlp`, with the same bits as autograd's.

    Autograd allocates each gradient, adds it to a bucket that was zeroed before, and searches its graph: with small
    slices that is a quarter of an update.

    Args:
        network: With parameters and gradients that are views made by `FlatParameters`.
    """

    def __init__(self, network: nn.Sequential) -> None:
        self._linear = [layer for layer in network if isinstance(layer, nn.Linear)]
        activation = next((type(layer) for layer in network if not isinstance(layer, nn.Linear)), Elu)
        self._activate_, self._activate_back = _FORWARD[activation], _BACKWARD[activation]

    def forward(self, x: Tensor) -> list[Tensor]:
        """The input `[B, in]` and the outputs of all layers; the last is `[B, out]`."""
        outputs = [x]
        for layer in self._linear:
            x = nn.functional.linear(x, layer.weight, layer.bias)
            outputs.append(x if layer is self._linear[-1] else self._activate_(x))
        return outputs

    def backward(self, outputs: list[Tensor], gradient: Tensor) -> None:
        """Overwrite the gradients of the parameters.

        Args:
            outputs: Of `forward`, for the same parameters.
            gradient: Of the loss with respect to the last of them, `[B, out]`.
        """
        for number in reversed(range(len(self._linear))):
            layer, x = self._linear[number], outputs[number]
            assert layer.weight.grad is not None and layer.bias.grad is not None  # views of the bucket
            torch.mm(x.t(), gradient, out=layer.weight.grad.t())
            torch.sum(gradient, 0, out=layer.bias.grad)
            if number:
                gradient = self._activate_back(gradient.mm(layer.weight), x)
