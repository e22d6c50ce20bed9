"""The part of a checkpoint that is a ring: tensors by name."""

from collections.abc import Mapping

import torch
from torch import Tensor

from gmi_drl.replay import Ring
from gmi_drl.replay.checkpoint import flattened, nested
from gmi_drl.run.checkpoint import prefixed, with_prefix

PART, NUMBERS = "ring", "ring_numbers"


def ring_tensors(ring: Ring) -> dict[str, Tensor]:
    """All that later samples depend on. The steps that there are, and no others, are views of the ring's memory."""
    with ring.snapshot() as state:
        tensors, numbers = flattened(state)
    whole = {name: torch.tensor(number) for name, number in numbers.items()}
    return prefixed(PART, tensors) | prefixed(NUMBERS, whole)


def load_ring(ring: Ring, state: Mapping[str, Tensor], *, goes_on: bool) -> None:
    """Continue from `ring_tensors`; if there are none, the ring stays empty.

    Args:
        ring: With the same sizes.
        state: Of the checkpoint.
        goes_on: Whether the environments go on with their episodes; if not, the last step of each is none to learn
            from, since another one follows it.
    """
    tensors = with_prefix(PART, state)
    if not tensors:
        return
    numbers = {name: int(number) for name, number in with_prefix(NUMBERS, state).items()}
    ring.load_state_dict(nested(tensors | numbers))
    if not goes_on:
        ring.cut()
