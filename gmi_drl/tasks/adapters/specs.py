"""The sizes of a task, from the spaces of one environment."""

from itertools import groupby
from math import prod
from typing import Any

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.workload import UNLIMITED_STEPS, TaskSpec
from gmi_drl.workload.spaces import Action, Observation, continuous, vector

HIDDEN = (256, 128, 64)
SMALL_HIDDEN = (64, 64)
"""Of tasks with categories: classic control and games of few numbers."""

MOST_BOUND = torch.finfo(torch.float32).max / 2
"""The greatest finite bound of an action: the range between two such bounds is a float32."""


def spec_of(
    name: str, obs_space: Any, action_space: Any, *, episode_steps: int | None, step_s: float, reward_scale: float = 1.0
) -> TaskSpec:
    """The sizes of a task, from the spaces of one environment, which are boxes of numbers.

    Raises:
        UsageError: if a space is no box of numbers.
    """
    spaces = vector(_size(name, "observations", obs_space)), continuous(_size(name, "actions", action_space))
    return sized(name, *spaces, in_words(action_space), episode_steps, step_s, reward_scale)


def sized(
    name: str,
    observation: Observation,
    action: Action,
    bounds: str,
    episode_steps: int | None,
    step_s: float,
    reward_scale: float = 1.0,
    frame_skip: int = 1,
    agents: int = 1,
) -> TaskSpec:
    """The sizes of a task with these spaces; images have their features in place of hidden layers."""
    hidden = () if observation.of_kind("image") else SMALL_HIDDEN if action.categories else HIDDEN
    steps = int(episode_steps or UNLIMITED_STEPS)
    return TaskSpec(
        name,
        name,
        observation,
        action,
        hidden,
        steps,
        float(step_s),
        reward_scale,
        action_bounds=bounds,
        frame_skip=frame_skip,
        agents=agents,
    )


def in_words(action_space: Any) -> str:
    """The bounds of an action's numbers as text, equal neighbours counted: `2 x [-1, 1], 1 x [0, 5]`."""
    low, high = (bound.tolist() for bound in bounds_of(action_space))
    runs = [(bounds, len(list(alike))) for bounds, alike in groupby(zip(low, high, strict=True))]
    return ", ".join(f"{count} x [{least:g}, {most:g}]" for (least, most), count in runs)


def bounds_of(space: Any) -> tuple[Tensor, Tensor]:
    """The least and the greatest number of each entry of a box, flat, float32.

    A bound beyond `MOST_BOUND` is infinite, as some environments write the largest float32 for none.
    """
    sides = (torch.as_tensor(bound, dtype=torch.float32) for bound in (space.low, space.high))
    low, high = (bound.expand(space.shape).flatten() for bound in sides)
    low, high = (torch.where(bound.abs() > MOST_BOUND, bound * torch.inf, bound) for bound in (low, high))
    return low, high


def _size(name: str, what: str, space: Any) -> int:
    """How many numbers a box has. Every library has its own Box; only boxes have `low` and `high`."""
    if not (hasattr(space, "low") and hasattr(space, "high")):
        message = f"{name}: its {what} are {space}: supported is a Box of numbers, of any shape"
        if what == "observations" and hasattr(space, "spaces"):
            message += (
                ". gymnasium.wrappers.FlattenObservation makes one Box of them: register an entry that wraps your "
                "environment in it"
            )
        raise UsageError(message)
    return prod(space.shape)
