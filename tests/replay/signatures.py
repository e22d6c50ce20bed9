"""Signatures and steps for the tests of replay."""

import torch
from torch import Tensor

from gmi_drl.replay.fields import Field, Signature

MIXED = Signature(
    (
        Field("obs", (3,)),
        Field("done", (), torch.bool),
        Field("action", (2,), torch.int16),
        Field("step", (), torch.int64),
        Field("image", (2, 5), torch.uint8, column="image"),
    )
)
"""Two columns, five types."""

NUMBERED = Signature((Field("number", (), torch.int64),))


def mixed_steps(count: int, first: int = 0) -> dict[str, Tensor]:
    """Steps of `MIXED` whose fields follow from their numbers, which begin at `first`."""
    number = torch.arange(first, first + count)
    return {
        "obs": number[:, None] + torch.tensor([0.0, 0.25, 0.5]),
        "done": number % 3 == 0,
        "action": torch.stack((number, -number), 1).to(torch.int16),
        "step": number,
        "image": ((number[:, None] + torch.arange(10)) % 256).to(torch.uint8).view(count, 2, 5),
    }


def numbered_steps(count: int, first: int = 0) -> dict[str, Tensor]:
    """Steps of `NUMBERED`."""
    return {"number": torch.arange(first, first + count)}
