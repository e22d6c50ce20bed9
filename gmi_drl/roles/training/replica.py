"""What a training role needs of a learner, ours or another package's."""

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.roles.training.agent_learner import AgentLearner
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.evaluation import Act, act_of
from gmi_drl.roles.training.iteration_stats import Decision, IterationStats


class Replica(Protocol):
    """Trains one iteration at a time. Each replica of a group has its own environments; their learners stay equal."""

    def iterate(self, decide: Callable[[], Decision]) -> IterationStats:
        """One iteration. `decide` is called before statistics are exchanged; rank 0's result counts, for all."""

    def phases(self) -> dict[str, float]:
        """Seconds of the last iteration by phase (`phases.PHASES`)."""

    def metrics(self) -> Mapping[str, float | str]:
        """Losses of the last update, `learning_rate`, and optionally `warning`, a text for the user."""

    def set_learning_rate(self, rate: float) -> None:
        """Go on with another learning rate."""

    def policy(self) -> Act:
        """The policy as it is now, without noise, for evaluations (`evaluation.Act`). It acts until the next update."""

    def learner_state(self) -> dict[str, Tensor]:
        """The state that must be equal on all replicas."""

    def load_learner_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `learner_state`."""

    def local_state(self) -> dict[str, Tensor]:
        """The state of this replica alone: its task, its generators and its running episodes."""

    def load_local_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `local_state`."""


class LearnerReplica:
    """What replicas with a learner of ours have in common; see `Replica`.

    Args:
        learner: The same on all replicas.
        device: Of the clock.
    """

    def __init__(self, learner: AgentLearner, device: torch.device) -> None:
        self.learner, self.device, self.clock, self.sync_s = learner, device, PhaseClock(device), 0.0

    def phases(self) -> dict[str, float]:
        """Seconds of the last iteration by phase (`phases.PHASES`). Waits for the device, once."""
        phases = self.clock.read()
        phases["learn_s"] -= self.sync_s
        return {**phases, "sync_s": self.sync_s}

    def metrics(self) -> dict[str, float]:
        """See `Replica`. Synchronises with the host."""
        return self.learner.metrics()

    def set_learning_rate(self, rate: float) -> None:
        """See `Replica`."""
        self.learner.set_learning_rate(rate)

    def policy(self) -> Act:
        """See `Replica`."""
        return act_of(self.learner.agent)

    def learner_state(self) -> dict[str, Tensor]:
        """See `Replica`."""
        return self.learner.state_dict()

    def load_learner_state(self, state: dict[str, Tensor]) -> None:
        """See `Replica`."""
        self.learner.load_state_dict(state)
