"""One set of observation statistics in a group, for rsl-rl-lib 5.4, in which each process has its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.modules import EmpiricalNormalization
from torch import Tensor

from gmi_drl.errors import UsageError


def with_shared_statistics(base: type[PPO]) -> type[PPO]:
    """A subclass whose normalisers take in the rollouts of the whole group after each update, as since 5.5."""

    class SharedStatistics(base):  # type: ignore[misc]
        """Keeps the normalisers as they are within a rollout."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            if self.rnd:
                raise UsageError("rsl_rl.algorithm.rnd_cfg: random network distillation on GMIs needs rsl-rl-lib 5.5")
            networks = (self.actor, self.critic)
            self._normalisers = [part for net in networks for part in net.modules() if is_normaliser(part)]
            for normaliser in self._normalisers:
                normaliser.update = partial(take_in, normaliser)

        def process_env_step(self, *step: Any) -> None:
            with _frozen(self._normalisers):
                super().process_env_step(*step)

        def update(self) -> dict[str, float]:
            losses: dict[str, float] = super().update()
            observations = self.storage.observations.flatten(0, 1)
            for network in (self.actor, self.critic):
                network.update_normalization(observations)
            return losses

    return SharedStatistics


def is_normaliser(part: torch.nn.Module) -> bool:
    """Whether a part of a network keeps statistics."""
    return isinstance(part, EmpiricalNormalization)


@torch.no_grad()
def take_in(normaliser: Any, x: Tensor) -> None:
    """Merge the observations `[n, ...]` of all ranks into a normaliser; stands in for its method `update`."""
    if not normaliser.training or (normaliser.until is not None and normaliser.count >= normaliser.until):
        return
    count = torch.tensor(float(len(x)), dtype=torch.float64, device=x.device)
    total = torch.cat((count.view(1), x.sum(0, dtype=torch.float64).view(-1)))
    torch.distributed.all_reduce(total)
    mean = (total[1:] / total[0]).view(x.shape[1:])
    spread = (x - mean).square().sum(0)
    torch.distributed.all_reduce(spread)
    normaliser.count += total[0].long()
    rate, step = total[0] / normaliser.count, mean - normaliser._mean
    normaliser._mean += rate * step
    normaliser._var += rate * (spread / total[0] - normaliser._var + (1 - rate) * step.square())
    normaliser._std.copy_(normaliser._var.sqrt())


@contextmanager
def _frozen(normalisers: list[Any]) -> Iterator[None]:
    for normaliser in normalisers:
        normaliser.eval()
    yield
    for normaliser in normalisers:
        normaliser.train()
