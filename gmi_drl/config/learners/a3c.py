"""The configuration of our A3C."""

import math
from typing import Annotated, Literal, Self

from pydantic import Field

from gmi_drl.config.learners.base import (
    FLOAT_BYTES,
    KEPT,
    LEARNER_COPIES,
    ROLLOUT_COPIES,
    Count,
    Fraction,
    LearnerConfig,
    Positive,
)
from gmi_drl.config.learners.ppo import ADAPTIVE, Activation
from gmi_drl.config.settings import BEGINNING, LEARNING_RATE, LIVE, NETWORKS, RUN, Setting
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.layout.layout import Channels, Layout
from gmi_drl.workload import TaskSpec

BATCH_SCALARS = 5
"""Of a transition in a batch: log probability, reward, end, validity, value after a time-out."""

JUDGED_SCALARS = 16
"""What judging a transition takes beside, at most."""

OF_VTRACE = Setting(only_with=("vtrace", True))


class A3CConfig(LearnerConfig):
    """Asynchronous advantage actor-critic (Mnih et al., arXiv 1602.01783; GMI-DRL, section 5.1) with V-trace.

    Agents on other GMIs act by a policy that may be some versions old. A new run gets its task's `hidden`,
    `reward_scale` and `init_std`.

    Defaults were the fastest of some thirty settings tried on Ant with 512 environments and a lag of one version, a run
    each of 200,000 to 1,000,000 steps. Without `clip`, or with a learning rate that is fixed, policies ran away from
    those that had acted, the sooner the larger the rate; half the horizon of PPO means twice as many versions.
    """

    kind: Annotated[Literal["a3c"], RUN] = "a3c"

    hidden: Annotated[tuple[Count, ...], Field(min_length=1), NETWORKS] = (256, 128, 64)
    """Widths of the hidden layers of the policy and of the value network."""

    activation: Annotated[Activation, NETWORKS] = "elu"
    """Follows each hidden layer."""

    horizon: Annotated[Count, LIVE] = 8
    """T: control steps per world of a rollout, and the most that a return looks ahead before it takes a value."""

    rollouts: Annotated[Count | None, LIVE] = None
    """R: rollouts that a trainer learns from in one update. None: one from each agent, shared out among the trainers,
    at least 1."""

    minibatches: Annotated[Count, LIVE] = 16
    """Slices of an update: each is a step of the optimizer, and a reduction of the gradients."""

    learning_rate: Annotated[Positive, LEARNING_RATE] = 4e-4
    """What it begins with."""

    schedule: Annotated[Literal["adaptive", "fixed"], LIVE] = "adaptive"
    """`adaptive` keeps the KL of a slice, from the policies that acted, near `desired_kl`."""

    desired_kl: Annotated[Positive, ADAPTIVE] = 0.06
    """See `schedule`. The older the policies that act, the smaller become the steps."""

    gamma: Annotated[Fraction, LIVE] = 0.99
    """Discount of a step."""

    vtrace: Annotated[bool, LIVE] = True
    """Whether experience of another policy is corrected (arXiv 1802.01561). False: it is learnt from as if it were of
    the policy that learns, by n-step returns; with `clip: null` and `schedule: fixed` as in the paper."""

    rho_clip: Annotated[Positive, OF_VTRACE] = 1.0
    """Of V-trace: the most that the ratio of probabilities counts in a step."""

    c_clip: Annotated[Positive, OF_VTRACE] = 1.0
    """Of V-trace: the most that it counts for the steps before, `rho_clip` at most by its theory."""

    clip: Annotated[Positive | None, LIVE] = 0.5
    """How far the ratio may have moved from 1 the way that an action's advantage asks for, before the action moves the
    policy no more, as with PPO, with V-trace or without. None: however far, as published."""

    value_loss_coef: Annotated[float, Field(ge=0), LIVE] = 0.5
    """Weight of the squared error of values."""

    entropy_coef: Annotated[float, Field(ge=0), LIVE] = 0.0
    """Weight of the policy's entropy."""

    max_grad_norm: Annotated[Positive, LIVE] = 1.0
    """Of the policy's and of the value network's gradient."""

    init_std: Annotated[Positive, BEGINNING] = 0.3
    """Standard deviation of the actions at first. More noise is mostly clipped away by the limits of the actions."""

    bootstrap: Annotated[Literal["final_obs", "last_value"], LIVE] = "final_obs"
    """What follows a time-out: the value of the observation before the reset, or rsl_rl's approximation by the value
    one step earlier. Both are of the agent that acted."""

    @classmethod
    def for_task(cls, task: TaskSpec) -> Self:
        """See `LearnerConfig`."""
        return cls(hidden=task.hidden, reward_scale=task.reward_scale, init_std=task.init_std)

    def rollouts_of(self, agents: int, trainers: int) -> int:
        """R of so many agents and trainers."""
        return self.rollouts or math.ceil(agents / trainers)

    def worlds_of(self, layout: Layout) -> int:
        """See `LearnerConfig`: those of R rollouts."""
        agents, trainers = layout.with_role("agent"), layout.with_role("trainer")
        return self.rollouts_of(len(agents), len(trainers)) * agents[0].num_env

    def steps_of(self, layout: Layout) -> int:
        """See `LearnerConfig`: each trainer learns from rollouts of its own."""
        return len(layout.with_role("trainer")) * self.worlds_of(layout) * self.horizon

    def channels_bytes(self, layout: Layout, task: TaskSpec) -> int:
        """See `LearnerConfig`."""
        if layout.channels is None:
            return 0
        agents, trainers = layout.with_role("agent"), layout.with_role("trainer")
        rollouts = self.rollouts_of(len(agents), len(trainers))
        return self.batches_bytes(task, layout.channels, rollouts, agents[0].num_env)

    def batches_bytes(self, task: TaskSpec, channels: Channels, rollouts: int, num_env: int) -> int:
        """What the channels hold for one trainer: `max_lag + 1` batches of so many rollouts. The rest is little."""
        form = RolloutForm(self.horizon, num_env, task.num_obs, task.num_actions)
        return (channels.max_lag + 1) * form.offsets(rollouts)[-1]

    @property
    def epochs(self) -> int:
        """See `LearnerConfig`: experience is learnt from once."""
        return 1

    def memory_bytes(self, task: TaskSpec, num_env: int) -> int | None:
        """See `LearnerConfig`. On a GMI that trains, `num_env` are the worlds of all rollouts of an update.

        The batch is copied, and all of it is judged at once, in which a layer's input and output are there together.
        """
        networks = LEARNER_COPIES * self.bucket_bytes(task)
        samples = ROLLOUT_COPIES * (task.num_obs + task.num_actions + BATCH_SCALARS) + JUDGED_SCALARS
        activations = max(KEPT * 2 * sum(self.hidden) // self.minibatches, sum(self.hidden))
        return networks + FLOAT_BYTES * self.horizon * (samples + activations) * num_env

    @property
    def lam(self) -> float:
        """Of generalised advantage estimation, by which an actor judges: with 1 its returns are those of n steps."""
        return 1.0
