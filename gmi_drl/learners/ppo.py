"""The configuration of our PPO."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field

from gmi_drl.learners.base import Count, Fraction, LearnerConfig, Positive
from gmi_drl.workload import TaskSpec

Activation = Literal["elu", "tanh"]


class PPOConfig(LearnerConfig):
    """Proximal policy optimisation (Schulman et al., arXiv 1707.06347), with rsl_rl's names where they agree.

    A new run gets its task's `hidden`, `reward_scale`, `init_std`, `minibatches`, `epochs` and `desired_kl`.
    """

    kind: Literal["ppo"] = "ppo"

    hidden: Annotated[tuple[Count, ...], Field(min_length=1)] = (256, 128, 64)
    """Widths of the hidden layers of the policy and of the value network."""

    activation: Activation = "elu"
    """Follows each hidden layer."""

    horizon: Count = 16
    """The paper's m: control steps per world before each training."""

    epochs: Count = 4
    """How often an update goes through its samples."""

    minibatches: Count = 4
    """Per epoch."""

    learning_rate: Positive = 1e-3
    """What it begins with."""

    schedule: Literal["adaptive", "fixed"] = "adaptive"
    """`adaptive` keeps the KL of a mini-batch near `desired_kl`."""

    desired_kl: Positive = 0.04
    """The KL of one mini-batch is too noisy for 0.01: the fastest of a few tried on Ant, one run each."""

    gamma: Fraction = 0.99
    """Discount of a step."""

    lam: Fraction = 0.95
    """Of generalised advantage estimation."""

    clip: Positive = 0.2
    """How far the ratio of probabilities, and a value, may move."""

    value_loss_coef: Annotated[float, Field(ge=0)] = 1.0
    """Weight of the value loss."""

    clip_value_loss: bool = True
    """Whether `clip` is for values, too."""

    entropy_coef: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the policy's entropy."""

    max_grad_norm: Positive = 1.0
    """Of the policy's and of the value network's gradient."""

    init_std: Positive = 0.3
    """Standard deviation of the actions at first. More noise is mostly clipped away by the limits of the actions."""

    bootstrap: Literal["final_obs", "last_value"] = "final_obs"
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

    @property
    def networks(self) -> Any:
        """See `LearnerConfig`."""
        return [self.hidden, self.activation]
