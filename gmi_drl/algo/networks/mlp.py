"""Linear layers with an activation between them."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from gmi_drl.algo.elu import Elu
from gmi_drl.workload.network_sizes import Activation

ACTIVATIONS: dict[Activation, Callable[[], nn.Module]] = {
    "elu": Elu,
    "relu": partial(nn.ReLU, inplace=True),
    "tanh": nn.Tanh,
}

GAIN = math.sqrt(2)
"""Of the orthogonal weights of all layers but the last."""


class LastLayer(nn.Linear):
    """A linear layer in float32, also where autocast is on: values and means need more than 8 bits of mantissa."""

    def forward(self, x: Tensor) -> Tensor:
        """The result `[..., out]` of `x` `[..., in]`."""
        device = x.device.type
        if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
            return super().forward(x)
        with torch.autocast(device, enabled=False):
            return super().forward(x.float())


def mlp(sizes: Sequence[int], last_gain: float, activation: Activation) -> nn.Sequential:
    """Linear layers of the given sizes with the activation between them, orthogonal weights, zero biases."""
    *_, width, outputs = sizes
    return nn.Sequential(*hidden(sizes[:-1], activation), orthogonal(LastLayer(width, outputs), last_gain))


def hidden(sizes: Sequence[int], activation: Activation) -> list[nn.Module]:
    """Linear layers of the given sizes, each with the activation after it."""
    layers: list[nn.Module] = []
    for width, next_width in pairwise(sizes):
        layers += [orthogonal(nn.Linear(width, next_width)), ACTIVATIONS[activation]()]
    return layers


def orthogonal(layer: nn.Linear | nn.Conv2d, gain: float = GAIN) -> nn.Linear | nn.Conv2d:
    """The layer with orthogonal weights and zero biases."""
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer
