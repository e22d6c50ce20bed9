"""The networks of a policy: what is set of them, and how many weights they have. Pure data, for plans."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Literal

from gmi_drl.errors import UsageError
from gmi_drl.workload.spaces import Action, Observation, Part

Conv = tuple[int, int, int]
"""Channels, kernel, stride."""

Activation = Literal["elu", "relu", "tanh"]

Memory = Literal["none", "gru", "lstm"]

LARGE_CONV: tuple[Conv, ...] = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Convolutions of images from `LARGE` pixels on (Mnih et al., Nature 2015)."""

SMALL_CONV: tuple[Conv, ...] = ((16, 3, 1),)
"""Convolutions of smaller images (Young and Tian, arXiv 1903.03176)."""

FEATURES = 512
"""Width of the layer after the convolutions of an image."""

LARGE = 36
"""Pixels of a side, from which `LARGE_CONV` is used."""

GATES: dict[Memory, int] = {"none": 0, "gru": 3, "lstm": 4}

STATES: dict[Memory, int] = {"none": 0, "gru": 1, "lstm": 2}
"""Numbers of a memory's state, divided by its width."""

MEMORY_SIZE = 128
"""Usual width of a memory."""

ACTOR, CRITIC = "actor", "critic"


@dataclass(frozen=True)
class NetworkSettings:
    """What is set of the networks of policy and value.

    Args:
        hidden: Widths of the hidden layers.
        activation: Follows each hidden layer.
        conv: Convolutions of images; None: by their size.
        features: Width of the layer after the convolutions of an image.
        share: Whether policy and value share all but their last layers; None: with images.
        memory: The recurrent layer before the hidden layers.
        memory_size: Its width.
        bf16: Whether the products of all layers but the last are in bfloat16.
        groups: Names of the parts that `actor` and `critic` see; one that is missing sees all.
    """

    hidden: tuple[int, ...]
    activation: Activation = "elu"
    conv: tuple[Conv, ...] | None = None
    features: int = FEATURES
    share: bool | None = None
    memory: Memory = "none"
    memory_size: int = MEMORY_SIZE
    bf16: bool = False
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def is_shared(self, observation: Observation) -> bool:
        """Whether policy and value share a trunk for this observation."""
        alike = self.seen(observation, ACTOR) == self.seen(observation, CRITIC)
        return alike and bool(observation.of_kind("image")) if self.share is None else self.share

    def seen(self, observation: Observation, who: str) -> tuple[Part, ...]:
        """The parts that the network of `actor` or `critic` sees, in the order of the observation."""
        names = self.groups.get(who)
        parts = (part for part in observation.parts if part.kind != "mask")
        if names is None:
            return tuple(part for part in parts if who == CRITIC or not part.critic_alone)
        return tuple(part for part in parts if part.name in names)

    def state_size(self, observation: Observation) -> int:
        """Numbers of the state that the memories of policy and value carry for one environment; 0 without memories."""
        memories = 1 if self.is_shared(observation) else 2
        return STATES[self.memory] * self.memory_size * memories

    def conv_of(self, part: Part) -> tuple[Conv, ...]:
        """The convolutions of an image."""
        if self.conv is not None:
            return self.conv
        return LARGE_CONV if min(part.shape[1:]) >= LARGE else SMALL_CONV

    def mistakes(self, observation: Observation) -> list[str]:
        """Why these networks cannot see this observation, each in a sentence with its remedy; empty if they can."""
        images, names = observation.of_kind("image"), [p.name for p in observation.parts if p.kind != "mask"]
        found = []
        if self.conv is not None and not images:
            found.append("learner.conv is for images, and the observation has none: leave it out")
        for who, seen in self.groups.items():
            if who not in (ACTOR, CRITIC):
                found.append(f"learner.obs_groups has {who}: it takes actor and critic")
            elif not seen or set(seen) - set(names):
                found.append(f"learner.obs_groups.{who} is {', '.join(seen) or 'empty'}: there is {', '.join(names)}")
        ours, theirs = (self.seen(observation, who) for who in (ACTOR, CRITIC))
        if self.share and ours != theirs:
            sees = [
                f"{who} sees {', '.join(part.name for part in of)}" for who, of in ((ACTOR, ours), (CRITIC, theirs))
            ]
            found.append(f"learner.share needs equal groups of observations, but {', '.join(sees)}: leave it out")
        for part in images:
            try:
                conv_shapes(part, self.conv_of(part))
            except UsageError as error:
                found.append(str(error))
        return found


def conv_shapes(part: Part, convs: tuple[Conv, ...]) -> list[tuple[int, int, int]]:
    """The shapes `(C, H, W)` of an image and after each of its convolutions, which do not pad.

    Raises:
        UsageError: A kernel is larger than what is left.
    """
    channels, height, width = part.shape
    shapes = [(channels, height, width)]
    for number, (channels, kernel, stride) in enumerate(convs, 1):
        if kernel > min(height, width):
            raise UsageError(
                f"image {part.name} is {height} x {width} before convolution {number}, whose kernel is {kernel}: set "
                f"learner.conv to fewer or smaller ones"
            )
        height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
        shapes.append((channels, height, width))
    return shapes


def trunk_sizes(settings: NetworkSettings, parts: tuple[Part, ...]) -> tuple[int, int]:
    """Weights of everything below the last layer of a network that sees these parts, and the width it gives."""
    weights = width = 0
    for part in parts:
        if part.kind == "vector":
            width += part.size
            continue
        convs = settings.conv_of(part)
        shapes = conv_shapes(part, convs)
        weights += sum(
            after[0] * (before[0] * kernel**2 + 1)
            for (before, after), (_, kernel, _) in zip(pairwise(shapes), convs, strict=True)
        )
        weights += (prod(shapes[-1]) + 1) * settings.features
        width += settings.features
    if gates := GATES[settings.memory]:
        size = settings.memory_size
        weights, width = weights + gates * size * (width + size + 2), size
    weights += sum((before + 1) * after for before, after in pairwise((width, *settings.hidden)))
    return weights, settings.hidden[-1] if settings.hidden else width


def num_weights(settings: NetworkSettings, observation: Observation, action: Action) -> int:
    """Weights of policy and value together, without the standard deviations (paper Table 7)."""
    (actor, actor_width), (critic, critic_width) = (
        trunk_sizes(settings, settings.seen(observation, who)) for who in (ACTOR, CRITIC)
    )
    heads = (actor_width + 1) * action.params + critic_width + 1
    return heads + (actor if settings.is_shared(observation) else actor + critic)


def activations_per_sample(settings: NetworkSettings, observation: Observation) -> int:
    """Outputs of all layers below the heads, of one network, for one observation."""
    images = sum(
        sum(prod(shape) for shape in conv_shapes(part, settings.conv_of(part))) + settings.features
        for part in observation.of_kind("image")
    )
    return images + GATES[settings.memory] * settings.memory_size + sum(settings.hidden)
