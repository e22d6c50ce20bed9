"""The settings of policy and value networks, which all our learners have."""

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from gmi_drl.config.learners.base import Count, LearnerConfig
from gmi_drl.config.settings import LIVE, NETWORKS
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.network_sizes import FEATURES, MEMORY_SIZE, Activation, Memory, NetworkSettings

Conv = tuple[Count, Count, Count]

Schedule = Literal["adaptive", "fixed", "linear"]
"""How the learning rate changes."""


class NetworkConfig(LearnerConfig):
    """The networks of a learner of ours."""

    hidden: Annotated[tuple[Count, ...], NETWORKS] = (256, 128, 64)
    """Widths of the hidden layers of the policy and of the value network."""

    activation: Annotated[Activation, NETWORKS] = "elu"
    """Follows each hidden layer and each convolution."""

    conv: Annotated[tuple[Conv, ...] | None, NETWORKS] = None
    """Convolutions of images, without padding: channels, kernel and stride of each. None: `[[32, 8, 4], [64, 4, 2],
    [64, 3, 1]]` from 36 pixels on, `[[16, 3, 1]]` below."""

    features: Annotated[Count | None, NETWORKS] = None
    """Width of the layer after the convolutions of an image. None: 512."""

    share: Annotated[bool | None, NETWORKS] = None
    """Whether policy and value share all but their last layers. None: with images."""

    memory: Annotated[Memory, NETWORKS] = "none"
    """A recurrent layer between the encoder and the hidden layers: `gru` or `lstm`. Its state begins at zero with each
    episode. Policy and value have one each, or one if they share."""

    memory_size: Annotated[Count | None, NETWORKS] = None
    """Width of the memory. None: 128."""

    sequence: Annotated[Count | None, LIVE] = None
    """With a memory: control steps through which gradients go back, from a state that the agent stored. It divides the
    horizon. Mini-batches consist of whole sequences. None: the horizon."""

    bf16: Annotated[bool, LIVE] = False
    """Multiply in bfloat16 in all layers but the last, there and back, with 8 bits of mantissa instead of 24; weights,
    sums of gradients, memories and losses stay float32. For CPUs and GPUs that have it (AVX512-BF16 or AMX, Ampere);
    refused on others."""

    obs_groups: Annotated[dict[str, tuple[str, ...]] | None, NETWORKS] = None
    """The parts of the observation that the policy (`actor`) and the value (`critic`) see, by name, as in rsl_rl:
    `{actor: [policy], critic: [policy, state]}`. None, or one that is missing: all parts."""

    if TYPE_CHECKING:  # a field of each learner, which describes it

        @property
        def schedule(self) -> Schedule:
            """How the learning rate changes."""
            raise NotImplementedError

    def rate_at(self, iteration: int, iterations: int) -> float | None:
        """See `LearnerConfig`."""
        return self.learning_rate * (1 - (iteration - 1) / iterations) if self.schedule == "linear" else None

    @property
    def network(self) -> NetworkSettings:
        """See `LearnerConfig`."""
        return NetworkSettings(
            hidden=self.hidden,
            activation=self.activation,
            conv=self.conv,
            features=self.features or FEATURES,
            share=self.share,
            memory=self.memory,
            memory_size=self.memory_size or MEMORY_SIZE,
            bf16=self.bf16,
            groups=self.obs_groups or {},
        )

    def rollout_form(self, task: TaskSpec, num_env: int, num_terms: int = 0) -> RolloutForm:
        """See `LearnerConfig`: with a memory, the states of sequences, too."""
        form = super().rollout_form(task, num_env, num_terms)
        if self.memory == "none":
            return form
        state_size = self.network.state_size(task.observation)
        return replace(form, state_size=state_size, sequence=self.sequence or self.horizon)

    def units_of(self, num_env: int) -> int:
        """See `LearnerConfig`: with a memory, sequences."""
        if self.memory == "none":
            return super().units_of(num_env)
        return num_env * (self.horizon // (self.sequence or self.horizon))

    @property
    def unit(self) -> str:
        """See `LearnerConfig`."""
        return "transitions" if self.memory == "none" else "sequences"

    def check(self, task: TaskSpec, groups: Collection[str] | None) -> list[str]:
        """See `LearnerConfig`."""
        mistakes = self.network.mistakes(task.observation)
        if self.features is not None and not task.observation.of_kind("image"):
            mistakes.append(f"learner.features is for images, and {task.name} has none: leave it out")
        if self.memory == "none":
            given = [name for name in ("memory_size", "sequence") if getattr(self, name) is not None]
            mistakes += [f"learner.{name} is for memories: leave it out, or set learner.memory" for name in given]
        elif self.horizon % (self.sequence or self.horizon):
            fitting = [str(length) for length in range(1, self.horizon + 1) if not self.horizon % length]
            mistakes.append(
                f"learner.sequence is {self.sequence}, which does not divide learner.horizon, {self.horizon}: "
                f"give one of {', '.join(fitting)}"
            )
        return mistakes


def usual_network(task: TaskSpec) -> dict[str, Any]:
    """The usual networks of a task with categories or images: of images by ReLU, of vectors by tanh."""
    return {"hidden": task.hidden, "activation": "relu" if task.observation.of_kind("image") else "tanh"}
