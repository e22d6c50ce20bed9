"""Shares observation statistics in a group for rsl-rl-lib 5.4, in which each process has its own."""

from functools import partial, reduce
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.modules import EmpiricalNormalization
from torch import Tensor

from gmi_drl.algo.normaliser import merge_moments, moments
from gmi_drl.errors import UsageError


def with_shared_statistics(base: type[PPO]) -> type[PPO]:
    """A subclass of `base` whose normalisers get the rollouts of the whole group after each update, as from 5.5 on.

    Its constructor raises UsageError for random network distillation, which normalises rewards within the rollout.
    """

    class SharedStatistics(base):  # type: ignore[misc]
        """Changes the normalisers after an update only, and not within a rollout."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            if self.rnd:
                raise UsageError("learner.runner.algorithm.rnd_cfg: on several GMIs it needs rsl-rl-lib 5.5")
            networks = (self.actor, self.critic)
            parts = [part for network in networks for part in network.modules()]
            self._normalisers = [part for part in parts if isinstance(part, EmpiricalNormalization)]
            for normaliser in self._normalisers:
                normaliser.update = partial(take_in, normaliser)
            self._set_open(False)

        def update(self) -> dict[str, float]:
            losses: dict[str, float] = super().update()
            self._set_open(True)
            observations = self.storage.observations.flatten(0, 1)
            for network in (self.actor, self.critic):
                network.update_normalization(observations)
            self._set_open(False)
            return losses

        def _set_open(self, is_open: bool) -> None:
            """Set whether the normalisers accept observations."""
            for normaliser in self._normalisers:
                normaliser.is_open = is_open

    return SharedStatistics


@torch.no_grad()
def take_in(normaliser: Any, x: Tensor) -> None:
    """Merge the observations `[n, ...]` of all ranks into a normaliser. Replaces its method `update`.

    All ranks of torch's default process group must call this; their n may differ.
    """
    is_full = normaliser.until is not None and normaliser.count >= normaliser.until
    if not (normaliser.is_open and normaliser.training) or is_full:
        return
    own = moments(x.flatten(1)).cpu()  # gloo gathers on the host
    deltas = [torch.empty_like(own) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(deltas, own)
    merged, size = reduce(merge_moments, deltas, _moments_of(normaliser)), own.numel() // 2
    count, mean, m2 = torch.split(merged, [1, size, size])
    normaliser.count.fill_(int(count))
    normaliser._mean.copy_(mean.view_as(normaliser._mean))
    normaliser._var.copy_((m2 / count).view_as(normaliser._var))
    normaliser._std.copy_(normaliser._var.sqrt())


def _moments_of(normaliser: Any) -> Tensor:
    """Count, mean and M2 so far, as `moments` has them, on the host."""
    buffers = (normaliser.count, normaliser._mean, normaliser._var)
    count, mean, variance = (buffer.double().cpu().view(-1) for buffer in buffers)
    return torch.cat((count, mean, variance * count))
