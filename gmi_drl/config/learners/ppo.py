"""The configuration of our PPO."""

from typing import Annotated, Literal, Self

from pydantic import Field

from gmi_drl.config.learners.base import Count, Fraction, Positive
from gmi_drl.config.learners.network import NetworkConfig, Schedule, usual_network
from gmi_drl.config.settings import BEGINNING, LEARNING_RATE, LIVE, RUN, Setting
from gmi_drl.workload import TaskSpec

GAMES = {"value_loss_coef": 0.5, "clip_value_loss": False, "entropy_coef": 0.01, "max_grad_norm": 0.5}
"""Of games, whose returns are far from 0, so that values must move further than `clip` allows."""

ADAPTIVE = Setting(only_with=("schedule", "adaptive"))


class PPOConfig(NetworkConfig):
    """Proximal policy optimisation (Schulman et al., arXiv 1707.06347), with rsl_rl's names where they agree.

    A new run gets its task's `hidden`, `reward_scale`, `init_std`, `minibatches`, `epochs` and `desired_kl`.
    """

    kind: Annotated[Literal["ppo"], RUN] = "ppo"

    horizon: Annotated[Count, LIVE] = 16
    """The paper's m: control steps per environment before each update."""

    epochs: Annotated[Count, LIVE] = 4
    """How often an update uses each of its samples."""

    minibatches: Annotated[Count, LIVE] = 4
    """Mini-batches per epoch."""

    learning_rate: Annotated[Positive, LEARNING_RATE] = 1e-3
    """The initial learning rate."""

    schedule: Annotated[Schedule, LIVE] = "adaptive"
    """`adaptive` keeps the KL of a mini-batch near `desired_kl`; `linear` lowers the rate
    in each iteration, from `learning_rate` in the first to nearly 0 in the last of `iterations`."""

    desired_kl: Annotated[Positive, ADAPTIVE] = 0.04
    """See `schedule`. The fastest of a few values on Ant, one run each; one mini-batch is too noisy for 0.01."""

    gamma: Annotated[Fraction, LIVE] = 0.99
    """Discount per step."""

    lam: Annotated[Fraction, LIVE] = 0.95
    """Lambda of generalised advantage estimation."""

    clip: Annotated[Positive, LIVE] = 0.2
    """Clip range of the ratio of probabilities, and of values."""

    value_loss_coef: Annotated[float, Field(ge=0), LIVE] = 1.0
    """Weight of the value loss."""

    clip_value_loss: Annotated[bool, LIVE] = True
    """Whether values are clipped, too."""

    entropy_coef: Annotated[float, Field(ge=0), LIVE] = 0.0
    """Weight of the policy's entropy."""

    max_grad_norm: Annotated[Positive, LIVE] = 1.0
    """Largest norm of the policy's gradient, and of the value network's."""

    init_std: Annotated[Positive, BEGINNING] = 0.3
    """Initial standard deviation of the actions. More is mostly cut off by the limits of the actions."""

    bootstrap: Annotated[Literal["final_obs", "last_value"], LIVE] = "final_obs"
    """What follows a time-out: the value of the observation before the reset, or rsl_rl's approximation by the value
    one step earlier."""

    @classmethod
    def for_task(cls, task: TaskSpec) -> Self:
        """See `LearnerConfig`. With images, what is usual for games (Schulman et al., table 5).

        With categories and numbers alone: the adaptive rate, which took CartPole past 450 in 60,000 steps, where the
        settings for games stayed below 150 (8 environments, one run each).
        """
        usual = {"reward_scale": task.reward_scale, "init_std": task.init_std}
        if task.observation.of_kind("image"):
            more = {"horizon": 128, "learning_rate": 2.5e-4, "schedule": "fixed", "clip": 0.1}
            return cls.model_validate(usual | usual_network(task) | more | GAMES)
        if task.action.categories:
            return cls.model_validate(usual | usual_network(task) | {"horizon": 32, "desired_kl": 0.01} | GAMES)
        return cls(
            hidden=task.hidden,
            reward_scale=task.reward_scale,
            init_std=task.init_std,
            minibatches=task.minibatches,
            epochs=task.epochs,
            desired_kl=task.desired_kl,
        )
