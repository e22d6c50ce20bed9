"""Convolutions of an image, in the memory format NHWC."""

from math import prod

import torch
from torch import Tensor, nn

from gmi_drl.algo.networks.mlp import ACTIVATIONS, orthogonal
from gmi_drl.workload.network_sizes import NetworkSettings, conv_shapes
from gmi_drl.workload.spaces import Part

SMALL = 2**16
"""Bytes of images below which the calls take longer than the copies, so that one copy of all channels is quicker."""


class ConvStack(nn.Module):
    """Convolutions without padding, each with the activation, then a linear layer to `features` numbers.

    Args:
        part: The image.
        settings: Of the networks.
    """

    def __init__(self, part: Part, settings: NetworkSettings) -> None:
        super().__init__()
        convs = settings.conv_of(part)
        shapes = conv_shapes(part, convs)
        layers: list[nn.Module] = []
        for (channels, *_), (out, kernel, stride) in zip(shapes[:-1], convs, strict=True):
            layers += [orthogonal(nn.Conv2d(channels, out, kernel, stride)), ACTIVATIONS[settings.activation]()]
        self.convs = nn.Sequential(*layers)
        self.linear = orthogonal(nn.Linear(prod(shapes[-1]), settings.features))
        self.activation = ACTIVATIONS[settings.activation]()

    def forward(self, image: Tensor) -> Tensor:
        """Features `[B, features]` of images `[B, C, H, W]`, uint8."""
        rows = self.convs(pixels_of(image)).permute(0, 2, 3, 1).flatten(1)  # as it lies in memory
        return self.activation(self.linear(rows))  # type: ignore[no-any-return]


def pixels_of(image: Tensor) -> Tensor:
    """Images `[B, C, H, W]`, uint8, as float32 in [0, 1] and in the memory format NHWC.

    On a CPU torch's own copy has the few channels in its inner loop, which takes up to twice as long.
    """
    if image.device.type != "cpu":
        return image.to(torch.float32, memory_format=torch.channels_last).mul_(1 / 255)
    if torch.compiler.is_compiling() or image.numel() < SMALL:  # an export is for any number of images
        return image.to(torch.float32).mul_(1 / 255).contiguous(memory_format=torch.channels_last)
    rows = torch.empty(image.shape, dtype=torch.uint8, memory_format=torch.channels_last)
    for channel in range(image.shape[1]):
        rows[:, channel] = image[:, channel]
    return rows.to(torch.float32).mul_(1 / 255)
