"""A learner as another package would bring it, for tests: its entry and its configuration, which import no torch."""

from typing import Annotated, ClassVar, Literal

from gmi_drl.config.learners import LearnerConfig, LearnerEntry
from gmi_drl.config.settings import NETWORKS
from gmi_drl.units import GIB


class ToyConfig(LearnerConfig):
    """Policy gradients of whole rollouts, one step each."""

    kind: Literal["toy"] = "toy"
    hidden: Annotated[tuple[int, ...], NETWORKS] = (16,)
    activation: Literal["elu", "tanh"] = "tanh"
    init_std: float = 0.5
    horizon: int = 4
    learning_rate: float = 1e-2
    gamma: float = 0.9
    lam: float = 0.9
    bootstrap: Literal["final_obs", "last_value"] = "last_value"
    most_obs: int = 100
    history_gib: float = 0.0

    epochs: ClassVar[int] = 1
    minibatches: ClassVar[int] = 1

    @classmethod
    def for_task(cls, task):
        return cls(reward_scale=task.reward_scale)

    def memory_bytes(self, task, num_env):
        return super().memory_bytes(task, num_env) + round(self.history_gib * GIB)

    def check(self, task, groups):
        if task.observation.size <= self.most_obs:
            return []
        return [
            f"toy takes {self.most_obs} numbers, {task.name} has {task.observation.size}: --set learner.most_obs=..."
        ]


ENTRY = LearnerEntry("toy", "policy gradients", "toy_learner:ToyConfig", "toy_role:Toy", probe="toy_role:ToyProbe")
