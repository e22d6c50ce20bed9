"""The configuration of our SAC."""

from collections.abc import Collection
from typing import Annotated, Literal, Self

from pydantic import Field

from gmi_drl.config.learners.base import Count, Positive
from gmi_drl.config.learners.off_policy import OffPolicyConfig, ReplaySettings
from gmi_drl.config.settings import LIVE, NETWORKS, RUN, Setting
from gmi_drl.workload import TASK_SPECS, TaskSpec
from gmi_drl.workload.network_sizes import ACTOR, trunk_sizes


class SACConfig(OffPolicyConfig):
    """Soft actor-critic with a tuned entropy (Haarnoja et al., arXiv 1812.05905).

    It takes numbers as actions, over vectors. The defaults are those of RL Baselines3 Zoo for MuJoCo's tasks, with one
    to eight environments in mind.
    """

    kind: Annotated[Literal["sac"], RUN] = "sac"

    layer_norm: Annotated[bool, NETWORKS] = False
    """Whether the critics normalise the outputs of their hidden layers (Ba et al., arXiv 1607.06450)."""

    tau: Annotated[float, Field(gt=0, le=1), LIVE] = 0.005
    """How far the targets of the critics follow them with each update."""

    actor_every: Annotated[Count, LIVE] = 1
    """The policy and the weight of the entropy change with each of so many updates."""

    alpha: Annotated[Positive, Setting(fixed="only a new run begins with it")] = 1.0
    """Weight of the entropy, with which a run begins."""

    target_entropy: Annotated[float | None, LIVE] = None
    """The entropy to which its weight is tuned. None: minus the numbers of an action."""

    @classmethod
    def for_task(cls, task: TaskSpec) -> Self:
        """See `LearnerConfig`."""
        return cls(normalise=task.name in TASK_SPECS, replay=ReplaySettings(min_size=10_000))

    def num_weights(self, task: TaskSpec) -> int:
        """See `OffPolicyConfig`: policy, two critics, and the weight of the entropy."""
        seen = self.network.seen(task.observation, ACTOR)
        policy, width = trunk_sizes(self.network, seen)
        first = self.hidden[0] if self.hidden else 1
        critic = policy + task.action.size * first + (width + 1 if self.hidden else 1)
        norms = 2 * sum(self.hidden) if self.layer_norm else 0
        return policy + 2 * (width + 1) * task.action.numbers + 2 * (critic + norms) + 1

    def check(self, task: TaskSpec, groups: Collection[str] | None) -> list[str]:
        """See `LearnerConfig`."""
        found = super().check(task, groups)
        if task.action.categories or not task.action.numbers:
            other = "dqn" if not task.action.numbers and len(task.action.categories) == 1 else "ppo"
            found.append(f"sac takes numbers as actions, {task.name} takes {task.action}: take --algo {other}")
        if not task.observation.is_vector:
            found.append(f"sac takes vectors, {task.name} has {task.observation}: take --algo ppo")
        if any(part.critic_alone for part in task.observation.parts):
            found.append(f"sac's policy sees what its critics see, {task.name} has parts for them alone: --algo ppo")
        if not self.hidden:
            found.append("learner.hidden is empty: sac needs a hidden layer at least")
        return found
