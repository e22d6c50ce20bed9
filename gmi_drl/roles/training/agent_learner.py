"""The base of what trains an agent of ours: its metrics, its learning rate, and its state."""

from typing import Protocol

from torch import Tensor

from gmi_drl.algo.policy import ActingAgent


class Updater(Protocol):
    """Updates a policy: `FlatLearner`, `ReplayLearner` or `Sequence`."""

    learning_rate: Tensor

    def metrics(self) -> dict[str, float]:
        """Losses of the last update and the learning rate. Waits for the device."""

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that the next update depends on, but its samples."""

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Continue from `state_dict`."""


class AgentLearner:
    """Trains an agent; the same on all GMIs of a group.

    Args:
        agent: Trained in place.
        updater: Of its policy.
    """

    def __init__(self, agent: ActingAgent, updater: Updater) -> None:
        self.agent, self.updater = agent, updater

    def metrics(self) -> dict[str, float]:
        """Losses of the last update and the learning rate. Synchronises with the host."""
        return self.updater.metrics()

    def set_learning_rate(self, rate: float) -> None:
        """Go on with another learning rate."""
        self.updater.learning_rate.fill_(rate)

    def state_dict(self) -> dict[str, Tensor]:
        """The state that is equal on all learners of a group. Generators are not in it."""
        return {**self.updater.state_dict(), "normaliser": self.agent.normaliser.statistics}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from `state_dict`."""
        self.agent.normaliser.load(state["normaliser"])
        self.updater.load_state_dict(state)
