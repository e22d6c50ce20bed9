"""Linear layers with an activation between them."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from torch import nn

from gmi_drl.algo.elu import Elu
from gmi_drl.workload.network_sizes import Activation

ACTIVATIONS: dict[Activation, Callable[[], nn.Module]] = {
    "elu": Elu,
    "relu": partial(nn.ReLU, inplace=True),
    "tanh": nn.Tanh,
}

GAIN = math.sqrt(2)
"""Of the orthogonal weights of all layers but the last."""


def mlp(sizes: Sequence[int], last_gain: float, activation: Activation) -> nn.Sequential:
    """Linear layers of the given sizes with the activation between them, orthogonal weights, zero biases."""
    layers: list[nn.Module] = []
    for depth, (width, next_width) in enumerate(pairwise(sizes), 2):
        is_last = depth == len(sizes)
        linear = orthogonal(nn.Linear(width, next_width), last_gain if is_last else GAIN)
        layers += [linear] if is_last else [linear, ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)


def orthogonal(layer: nn.Linear | nn.Conv2d, gain: float = GAIN) -> nn.Linear | nn.Conv2d:
    """The layer with orthogonal weights and zero biases."""
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer
