"""What a role that trains needs of a replica, whoever wrote its learner."""

from collections.abc import Callable, Mapping
from typing import Protocol

from torch import Tensor

from gmi_drl.roles.training.iteration_stats import Decision, IterationStats


class Replica(Protocol):
    """Worlds of its own and a learner that all replicas of a group hold alike, one iteration at a time."""

    def iterate(self, decide: Callable[[], Decision]) -> IterationStats:
        """One iteration. `decide` is asked before what all GMIs see is exchanged; rank 0's answer counts, for all."""

    def phases(self) -> dict[str, float]:
        """Seconds of the last iteration by phase (`phases.PHASES`)."""

    def metrics(self) -> Mapping[str, float | str]:
        """Losses of the last update, `learning_rate`, and `warning` where people should be told of something."""

    def set_learning_rate(self, rate: float) -> None:
        """Go on with another learning rate."""

    def learner_state(self) -> dict[str, Tensor]:
        """What all replicas must hold alike."""

    def load_learner_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `learner_state`."""

    def local_state(self) -> dict[str, Tensor]:
        """What this replica alone holds: its worlds, its generators and its running episodes."""

    def load_local_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `local_state`."""
