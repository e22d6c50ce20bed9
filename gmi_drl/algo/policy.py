"""What whoever acts needs of a policy, whichever learner trains it."""

from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.workload.spaces import Action, Observation


class Noise(Protocol):
    """The part of a `Distribution` that whoever acts needs."""

    @property
    def action(self) -> Action:
        """What is drawn."""

    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device) -> Tensor:
        """Random numbers `[*shape, P]` for `Policy.act`."""


class Policy(Protocol):
    """Acts on observations."""

    @property
    def distribution(self) -> Noise:
        """Of the actions."""

    @property
    def observation(self) -> Observation:
        """What it sees."""

    def mode(self, obs: Tensor) -> Tensor:
        """The most likely actions `[..., A]` for normalised observations."""

    def act(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions `[..., A]` and params `[..., P]` by normalised observations and noise `[..., P]`; 0: the mode."""

    def parameters_in_order(self) -> list[torch.nn.Parameter]:
        """All that is trained, in the order of checkpoints."""


class ActingAgent(Protocol):
    """A policy and the scaling of its observations: `Agent`, `ReplayAgent` or `SequenceAgent`."""

    @property
    def policy(self) -> Policy:
        """Acts."""

    @property
    def normaliser(self) -> Normaliser:
        """Scales observations."""

    @property
    def iteration(self) -> int:
        """Of the run that it was read from; 0 if it is new."""

    def act(self, obs: Tensor, noise: Tensor | None = None, state: Tensor | None = None) -> Tensor:
        """Actions `[N, A]` for observations: the most likely, or with noise `[N, P]` a sample.

        A policy with memories reads and writes their `state [N, S]` (`empty_state`).
        """

    def sample(self, obs: Tensor, noise: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        """As `act`, with the params of the distributions `[N, P]`, and with memories the values `[N]`, too."""

    def empty_state(self, num_env: int) -> Tensor | None:
        """The state `[N, S]` of the policy's memories when episodes begin; None without memories."""

    def receive(self, reward: Tensor, valid: Tensor, state: Tensor | None) -> None:
        """Learn of the rewards `[N]` of the last actions, for policies whose `state` counts them.

        Where a step was no transition (`valid [N]`), it has begun an episode.
        """
