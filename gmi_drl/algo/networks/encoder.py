"""Encoders: from an observation of any parts to one vector."""

import torch
from torch import Tensor, nn

from gmi_drl.algo.networks.conv import ConvStack
from gmi_drl.workload.network_sizes import NetworkSettings
from gmi_drl.workload.observations import parts_of
from gmi_drl.workload.spaces import Observation, Part


class Encoder(nn.Module):
    """Vectors as they are, and the features of each image, one after the other.

    Args:
        observation: What there is.
        seen: The parts of it that are encoded.
        settings: Of the networks.

    Attributes:
        width: Numbers of the result.
    """

    def __init__(self, observation: Observation, seen: tuple[Part, ...], settings: NetworkSettings) -> None:
        super().__init__()
        self._observation, self._seen = observation, seen
        images = [part for part in seen if part.kind == "image"]
        self.images = nn.ModuleList(ConvStack(part, settings) for part in images)
        self.width = sum(settings.features if part.kind == "image" else part.size for part in seen)

    def forward(self, obs: Tensor) -> Tensor:
        """One vector `[..., width]` of normalised observations `[..., *observation.shape]`."""
        parts, stacks = parts_of(obs, self._observation), iter(self.images)
        encoded = [
            self._features(next(stacks), parts[part.name], part) if part.kind == "image" else parts[part.name]
            for part in self._seen
        ]
        return encoded[0] if len(encoded) == 1 else torch.cat(encoded, -1)

    @staticmethod
    def _features(stack: nn.Module, image: Tensor, part: Part) -> Tensor:
        leading = image.shape[: image.dim() - len(part.shape)]
        return stack(image.reshape(-1, *part.shape)).unflatten(0, leading)  # type: ignore[no-any-return]
