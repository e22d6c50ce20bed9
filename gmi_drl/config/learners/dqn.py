"""The configuration of our DQN."""

from collections.abc import Collection
from typing import Annotated, Literal, Self

from gmi_drl.config.learners.base import Count, Fraction, Positive
from gmi_drl.config.learners.network import Conv
from gmi_drl.config.learners.off_policy import OffPolicyConfig, ReplaySettings
from gmi_drl.config.settings import LIVE, NETWORKS, RUN, Setting
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.network_sizes import ACTOR, FEATURES, NetworkSettings, trunk_sizes


class DQNConfig(OffPolicyConfig):
    """Deep Q-learning (Mnih et al., Nature 2015), double (arXiv 1509.06461) and dueling (arXiv 1511.06581).

    It takes one choice among categories, over vectors, images and both. A new run of a task with images gets the
    settings that are usual for Atari games; of others those of RL Baselines3 Zoo for CartPole, with 8 environments in
    mind.
    """

    kind: Annotated[Literal["dqn"], RUN] = "dqn"

    conv: Annotated[tuple[Conv, ...] | None, NETWORKS] = None
    """Convolutions of images, as of PPO."""

    features: Annotated[Count | None, NETWORKS] = None
    """Width of the layer after the convolutions of an image. None: 512."""

    dueling: Annotated[bool, NETWORKS] = True
    """Whether values of states and advantages of actions have layers of their own."""

    stream: Annotated[Count, Setting(fixed=NETWORKS.fixed, only_with=("dueling", True))] = 512
    """Width of the layer of each."""

    double: Annotated[bool, LIVE] = True
    """Whether the network that learns chooses the next action, whose value the target gives."""

    target_every: Annotated[Count, LIVE] = 10_000
    """Updates between copies of the network to the target."""

    epsilon_start: Annotated[Fraction, LIVE] = 1.0
    """Share of random actions at the first step."""

    epsilon_end: Annotated[Fraction, LIVE] = 0.05
    """Share of random actions from `epsilon_steps` on, and in serving with noise."""

    epsilon_steps: Annotated[Count, LIVE] = 100_000
    """Steps of all environments in which the share falls, evenly."""

    max_grad_norm: Annotated[Positive, LIVE] = 10.0
    """Largest norm of the gradient."""

    @classmethod
    def for_task(cls, task: TaskSpec) -> Self:
        """See `LearnerConfig`."""
        if task.observation.of_kind("image"):
            return cls(
                hidden=(),
                learning_rate=1e-4,
                batch=32,
                horizon=16,
                updates_per_step=2.0,
                target_every=2_500,
                epsilon_steps=1_000_000,
                replay=ReplaySettings(size=100_000, min_size=20_000),
            )
        return cls(
            dueling=False,
            learning_rate=2.3e-3,
            batch=64,
            horizon=32,
            updates_per_step=4.0,
            target_every=128,
            epsilon_end=0.04,
            epsilon_steps=8_000,
            replay=ReplaySettings(size=100_000, min_size=1000),
        )

    @property
    def network(self) -> NetworkSettings:
        """See `LearnerConfig`."""
        return NetworkSettings(self.hidden, self.activation, self.conv, self.features or FEATURES)

    def num_weights(self, task: TaskSpec) -> int:
        """See `OffPolicyConfig`."""
        trunk, width = trunk_sizes(self.network, self.network.seen(task.observation, ACTOR))
        heads = [(width, task.action.params)]
        if self.dueling:
            heads = [(width, self.stream), (width, self.stream), (self.stream, 1), (self.stream, task.action.params)]
        return trunk + sum((before + 1) * after for before, after in heads)

    def check(self, task: TaskSpec, groups: Collection[str] | None) -> list[str]:
        """See `LearnerConfig`."""
        found = super().check(task, groups) + self.network.mistakes(task.observation)
        if task.action.numbers or len(task.action.categories) != 1:
            other = "sac" if not task.action.categories and task.observation.is_vector else "ppo"
            found.append(f"dqn takes one choice among categories, {task.name} takes {task.action}: take --algo {other}")
        if self.features is not None and not task.observation.of_kind("image"):
            found.append(f"learner.features is for images, and {task.name} has none: leave it out")
        return found
