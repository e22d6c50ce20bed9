"""Rollouts of other GMIs in a ring, each by itself: no window goes from one into another."""

import torch
from torch import Tensor

from gmi_drl.algo.experience_batch import ReplayBatch
from gmi_drl.layout.experience import FACTS
from gmi_drl.replay import Field, Ring
from gmi_drl.replay.ring import NEXT

VERSION = Field("version", (), torch.int32)
"""The version of the policy that acted, a field of each step."""


def add_rollouts(ring: Ring, batch: ReplayBatch) -> None:
    """Add the steps `[T]` of R rollouts `[R, T, N]` to a ring of R x N environments.

    Whose rollout follows in the same rows is not known. So with `next_obs="twice"` the last step of a rollout ends its
    windows, which know what follows. With `once` a row with `last_obs` follows it, at which no window begins; windows
    of n steps do not begin at the last n - 1 steps then.

    Args:
        ring: Has the field `VERSION`.
        batch: May change as soon as this returns, on a device in order with its current stream.
    """
    rollouts, horizon, num_env = batch.reward.shape
    versions = batch.facts[:, FACTS.index("version"), None].expand(rollouts, num_env).flatten().to(VERSION.dtype)
    for t in range(horizon):
        step = {name: _at(getattr(batch, name), t) for name in ("obs", "action", "reward")}
        step |= {"terminated": _at(batch.terminated, t).bool(), VERSION.name: versions}
        boundary, valid = _at(batch.done, t).bool(), _at(batch.valid, t).bool()
        if batch.next_obs is not None:
            step[NEXT + "obs"] = _at(batch.next_obs, t)
            if t == horizon - 1:
                boundary = torch.ones_like(boundary)
        ring.add(step, boundary, valid)
    if batch.next_obs is None:
        nothing = torch.zeros_like(boundary)
        row = {name: torch.zeros_like(value) for name, value in step.items() if name != VERSION.name}
        ring.add({**row, "obs": batch.last_obs.flatten(0, 1), VERSION.name: versions}, nothing, nothing)


def _at(kind: Tensor, t: int) -> Tensor:
    """A step of all environments, `[R x N, ...]`."""
    return kind[:, t].flatten(0, 1)
