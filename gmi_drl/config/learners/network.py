"""The settings of policy and value networks, which all our learners have."""

from collections.abc import Collection
from typing import Annotated, Any

from gmi_drl.config.learners.base import Count, LearnerConfig
from gmi_drl.config.settings import NETWORKS
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.network_sizes import FEATURES, Activation, NetworkSettings

Conv = tuple[Count, Count, Count]


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

    obs_groups: Annotated[dict[str, tuple[str, ...]] | None, NETWORKS] = None
    """The parts of the observation that the policy (`actor`) and the value (`critic`) see, by name, as in rsl_rl:
    `{actor: [policy], critic: [policy, state]}`. None, or one that is missing: all parts."""

    @property
    def network(self) -> NetworkSettings:
        """See `LearnerConfig`."""
        return NetworkSettings(
            hidden=self.hidden,
            activation=self.activation,
            conv=self.conv,
            features=self.features or FEATURES,
            share=self.share,
            groups=self.obs_groups or {},
        )

    def check(self, task: TaskSpec, groups: Collection[str] | None) -> list[str]:
        """See `LearnerConfig`."""
        mistakes = self.network.mistakes(task.observation)
        if self.features is not None and not task.observation.of_kind("image"):
            mistakes.append(f"learner.features is for images, and {task.name} has none: leave it out")
        return mistakes


def usual_network(task: TaskSpec) -> dict[str, Any]:
    """The usual networks of a task with categories or images: of images by ReLU, of vectors by tanh."""
    return {"hidden": task.hidden, "activation": "relu" if task.observation.of_kind("image") else "tanh"}
