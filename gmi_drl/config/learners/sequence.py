"""The configuration of the sequence policy."""

from collections.abc import Collection
from typing import Annotated, Literal, Self

from pydantic import Field

from gmi_drl.config.learners.base import FLOAT_BYTES, LEARNER_COPIES, Count, LearnerConfig, Positive
from gmi_drl.config.learners.offline_data import mistakes_of_folder
from gmi_drl.config.settings import LEARNING_RATE, LIVE, NETWORKS, RUN, Setting
from gmi_drl.layout.layout import Layout
from gmi_drl.workload import AGREED, TaskSpec

TOKENS = 3
"""Of a step: return-to-go, observation, action."""

KEPT_OF_TOKEN = 20
"""Widths of numbers kept for the backward pass, for each token and layer."""

WIDER = 4
"""The inner layer of a block is so many times as wide as the block."""


class SequenceConfig(LearnerConfig):
    """A decoder that predicts actions from the last steps (Decision Transformer, Chen et al., arXiv 2106.01345).

    It learns from recorded episodes alone. The policy acts in its task as well, so that rows have returns.
    """

    kind: Annotated[Literal["sequence"], RUN] = "sequence"

    reward_scale: Annotated[Positive, Setting(idle="returns are scaled by the best of the recorded ones")] = 1.0
    """Without effect."""

    data: Annotated[str | None, RUN] = None
    """The folder of episodes, which `gmi-drl replay import` wrote. Needed; a relative path begins where the command
    runs."""

    context: Annotated[Count, NETWORKS] = 8
    """Steps that the policy reads, with the present one."""

    layers: Annotated[Count, NETWORKS] = 2
    """Blocks of attention and two linear layers."""

    width: Annotated[Count, NETWORKS] = 64
    """Numbers of a token."""

    heads: Annotated[Count, NETWORKS] = 4
    """Heads of attention, which divide the width."""

    horizon: Annotated[Count, LIVE] = 16
    """Control steps per environment that the policy acts in an iteration."""

    updates: Annotated[Count, LIVE] = 100
    """Updates in an iteration."""

    batch: Annotated[Count, LIVE] = 64
    """Contexts that an update learns from, over all GMIs."""

    learning_rate: Annotated[Positive, LEARNING_RATE] = 1e-3
    """The learning rate."""

    max_grad_norm: Annotated[Positive, LIVE] = 1.0
    """Largest norm of the gradient."""

    return_exponent: Annotated[float, Field(ge=0), LIVE] = 0.0
    """How much likelier contexts of good episodes are: an episode counts by its return's part of the way from the worst
    to the best one, to this power. 0: all contexts alike."""

    target_return: Annotated[float | None, LIVE] = None
    """The return that the policy is asked for where it acts. None: the mean of the best tenth of the episodes."""

    @classmethod
    def for_task(cls, task: TaskSpec) -> Self:
        """See `LearnerConfig`."""
        return cls()

    @property
    def epochs(self) -> int:
        """See `LearnerConfig`: each update has its own batch."""
        return 1

    @property
    def minibatches(self) -> int:
        """See `LearnerConfig`: the updates of an iteration."""
        return self.updates

    @property
    def has_shards(self) -> bool:
        """See `LearnerConfig`."""
        return True

    @property
    def hidden(self) -> tuple[int, ...]:
        """See `LearnerConfig`."""
        return (self.width,) * self.layers

    def units_of(self, num_env: int) -> int:
        """See `LearnerConfig`: each update draws its own batch, so there are never too few for the updates."""
        return max(super().units_of(num_env), self.updates)

    def num_weights(self, task: TaskSpec) -> int:
        """Weights of the policy, with the standard deviations of numbers."""
        width, inner = self.width, WIDER * self.width
        inputs = sum((size + 1) * width for size in (1, task.observation.size, task.action.params))
        norms = 2 * width
        block = (width + 1) * 3 * width + (width + 1) * width + (width + 1) * inner + (inner + 1) * width + 2 * norms
        output = (width + 1) * task.action.params + task.action.numbers
        return inputs + self.context * width + self.layers * block + norms + output

    def bucket_bytes(self, task: TaskSpec) -> int:
        """See `LearnerConfig`."""
        return FLOAT_BYTES * (self.num_weights(task) + AGREED)

    def memory_bytes(self, task: TaskSpec, num_env: int) -> int | None:
        """See `LearnerConfig`: networks, a batch, and the contexts in which the policy acts. Episodes are mapped."""
        token = FLOAT_BYTES * KEPT_OF_TOKEN * self.width * self.layers
        contexts = TOKENS * self.context * token * (self.batch + num_env)
        return LEARNER_COPIES * self.bucket_bytes(task) + contexts

    def check(self, task: TaskSpec, groups: Collection[str] | None) -> list[str]:
        """See `LearnerConfig`."""
        found = list[str]()
        if not task.observation.is_vector:
            found.append(f"sequence takes vectors, {task.name} has {task.observation}: take --algo ppo")
        if any(part.critic_alone for part in task.observation.parts):
            found.append(f"sequence has no critic, {task.name} has parts for one alone: take --algo ppo")
        if self.width % self.heads:
            found.append(f"learner.width is {self.width}, which {self.heads} heads (learner.heads) do not divide")
        return found

    def mistakes_in(self, layout: Layout) -> list[str]:
        """See `LearnerConfig`: a folder that is missing, or has too few episodes for the GMIs."""
        if self.data is None:
            return ["sequence learns from recorded episodes: --set learner.data=FOLDER (`gmi-drl replay import`)"]
        gmis = len(layout.with_role("trainer"))
        if self.batch < gmis:
            return [f"learner.batch is {self.batch}, and {gmis} GMIs need a context each: make it {gmis} at least"]
        return mistakes_of_folder("learner.data", self.data, gmis)
