"""The agent of learners that learn from replay: it acts, and explores."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.policy import Policy


class ExploringPolicy(Policy, Protocol):
    """A policy that acts at random now and then.

    Attributes:
        exploration: Share of random actions, float32 `[]` on the device.
    """

    exploration: Tensor


@dataclass(frozen=True)
class ReplayAgent:
    """A policy and the scaling of its observations. A learner changes both in place.

    Attributes:
        iteration: Of the run that it was read from; 0 if it is new.
    """

    policy: ExploringPolicy
    normaliser: Normaliser
    iteration: int = 0

    @torch.no_grad()
    def act(self, obs: Tensor, noise: Tensor | None = None, state: Tensor | None = None) -> Tensor:
        """Actions `[N, A]` for observations: the best, or with noise of the distribution `[N, P]` as in training."""
        seen = self.normaliser(obs)
        return self.policy.mode(seen) if noise is None else self.policy.act(seen, noise)[0]

    @torch.no_grad()
    def sample(self, obs: Tensor, noise: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        """See `ActingAgent`."""
        return *self.policy.act(self.normaliser(obs), noise), None

    def empty_state(self, num_env: int) -> Tensor | None:
        """See `ActingAgent`: there are no memories."""
        return None

    def receive(self, reward: Tensor, valid: Tensor, state: Tensor | None) -> None:
        """See `ActingAgent`: rewards do not count for its actions."""
