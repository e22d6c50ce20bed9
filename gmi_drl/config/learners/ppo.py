"""The configuration of our PPO."""

from typing import Annotated, Literal, Self

from pydantic import Field

from gmi_drl.config.learners.base import Count, Fraction, LearnerConfig, Positive
from gmi_drl.config.settings import BEGINNING, LEARNING_RATE, LIVE, NETWORKS, RUN, Setting
from gmi_drl.workload import TaskSpec

Activation = Literal["elu", "tanh"]

ADAPTIVE = Setting(only_with=("schedule", "adaptive"))


class PPOConfig(LearnerConfig):
    """Proximal policy optimisation (Schulman et al., arXiv 1707.06347), with rsl_rl's names where they agree.

    A new run gets its task's `hidden`, `reward_scale`, `init_std`, `minibatches`, `epochs` and `desired_kl`.
    """

    kind: Annotated[Literal["ppo"], RUN] = "ppo"

    hidden: Annotated[tuple[Count, ...], Field(min_length=1), NETWORKS] = (256, 128, 64)
    """Widths of the hidden layers of the policy and of the value network."""

    activation: Annotated[Activation, NETWORKS] = "elu"
    """Follows each hidden layer."""

    horizon: Annotated[Count, LIVE] = 16
    """The paper's m: control steps per world before each training."""

    epochs: Annotated[Count, LIVE] = 4
    """How often an update goes through its samples."""

    minibatches: Annotated[Count, LIVE] = 4
    """Per epoch."""

    learning_rate: Annotated[Positive, LEARNING_RATE] = 1e-3
    """What it begins with."""

    schedule: Annotated[Literal["adaptive", "fixed"], LIVE] = "adaptive"
    """`adaptive` keeps the KL of a mini-batch near `desired_kl`."""

    desired_kl: Annotated[Positive, ADAPTIVE] = 0.04
    """The KL of one mini-batch is too noisy for 0.01: the fastest of a few tried on Ant, one run each."""

    gamma: Annotated[Fraction, LIVE] = 0.99
    """Discount of a step."""

    lam: Annotated[Fraction, LIVE] = 0.95
    """Of generalised advantage estimation."""

    clip: Annotated[Positive, LIVE] = 0.2
    """How far the ratio of probabilities, and a value, may move."""

    value_loss_coef: Annotated[float, Field(ge=0), LIVE] = 1.0
    """Weight of the value loss."""

    clip_value_loss: Annotated[bool, LIVE] = True
    """Whether `clip` is for values, too."""

    entropy_coef: Annotated[float, Field(ge=0), LIVE] = 0.0
    """Weight of the policy's entropy."""

    max_grad_norm: Annotated[Positive, LIVE] = 1.0
    """Of the policy's and of the value network's gradient."""

    init_std: Annotated[Positive, BEGINNING] = 0.3
    """Standard deviation of the actions at first. More noise is mostly clipped away by the limits of the actions."""

    bootstrap: Annotated[Literal["final_obs", "last_value"], LIVE] = "final_obs"
    """What follows a time-out: the value of the observation before the reset, or rsl_rl's approximation by the value
    one step earlier."""

    @classmethod
    def for_task(cls, task: TaskSpec) -> Self:
        """See `LearnerConfig`."""
        return cls(
            hidden=task.hidden,
            reward_scale=task.reward_scale,
            init_std=task.init_std,
            minibatches=task.minibatches,
            epochs=task.epochs,
            desired_kl=task.desired_kl,
        )
