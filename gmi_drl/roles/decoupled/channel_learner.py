"""What a trainer needs of whatever learns from the rollouts of agents on other GMIs."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from gmi_drl.algo.experience_batch import RolloutBatch
from gmi_drl.roles.training.agent_learner import AgentLearner
from gmi_drl.roles.training.iteration_stats import IterationStats

Batch = TypeVar("Batch", bound=RolloutBatch)


class ChannelLearner(AgentLearner, ABC, Generic[Batch]):
    """Learns from one batch of rollouts after another; the same on all trainers.

    Attributes:
        device: Of all tensors.
    """

    device: torch.device

    batch_type: type[Batch]
    """What a batch has."""

    keeps_batch: ClassVar[bool] = True
    """Whether `learn` reads the batch. If not, agents get its memory again when `take` has returned."""

    @property
    @abstractmethod
    def published(self) -> list[Tensor]:
        """The tensors that those who act get: the parameters, the normaliser's statistics, and what else they need."""

    @abstractmethod
    def take(self, batch: Batch, version: int) -> Tensor:
        """Take the batch of the next update, which begins with this version of the policy.

        Returns:
            What the learners of all trainers must know of each other before the update, float64 `[K]`.
        """

    @abstractmethod
    def learn(self, stats: IterationStats) -> None:
        """Learn, gradients summed over the trainers, then merge the normaliser's deltas.

        Args:
            stats: With what all learners have `told`.
        """

    def local_state(self) -> dict[str, Tensor]:
        """The state of this trainer's learner alone; here none."""
        return {}

    def load_local_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `local_state`."""

    def growth_bytes(self) -> int:
        """Bytes, at most, by which `local_state` becomes larger; here 0."""
        return 0
