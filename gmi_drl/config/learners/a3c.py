"""The configuration of our A3C."""

from typing import Annotated, Literal, Self

from pydantic import Field

from gmi_drl.config.learners.base import (
    FLOAT_BYTES,
    KEPT,
    LEARNER_COPIES,
    ROLLOUT_COPIES,
    Count,
    Fraction,
    Positive,
)
from gmi_drl.config.learners.network import NetworkConfig, Schedule, usual_network
from gmi_drl.config.learners.ppo import ADAPTIVE
from gmi_drl.config.settings import BEGINNING, LEARNING_RATE, LIVE, RUN, Setting
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.network_sizes import activations_per_sample

BATCH_SCALARS = 5
"""Scalars of a transition in a batch: log probability, reward, end, validity, value after a time-out."""

ADVANTAGE_SCALARS = 16
"""Most further scalars of a transition for computing its advantage."""

OF_VTRACE = Setting(only_with=("vtrace", True))


class A3CConfig(NetworkConfig):
    """Asynchronous advantage actor-critic (Mnih et al., arXiv 1602.01783; GMI-DRL, section 5.1) with V-trace.

    Agents on other GMIs act by a policy that may be some versions old. A new run gets its task's `hidden`,
    `reward_scale` and `init_std`.

    The defaults were the fastest of about thirty settings on Ant with 512 environments and a lag of one version, one
    run of 200,000 to 1,000,000 steps each. Without `clip`, or with a fixed learning rate, policies diverged from those
    that had acted, earlier at larger rates. Half the horizon of PPO means twice as many versions.
    """

    kind: Annotated[Literal["a3c"], RUN] = "a3c"

    horizon: Annotated[Count, LIVE] = 8
    """T: control steps per environment in a rollout, and the most steps of a return before it uses a value."""

    rollouts: Annotated[Count | None, LIVE] = None
    """R: rollouts that a trainer learns from in one update. None: the number of agents per trainer, rounded up."""

    minibatches: Annotated[Count, LIVE] = 16
    """Mini-batches of an update: each is a step of the optimizer, with a reduction of the gradients."""

    learning_rate: Annotated[Positive, LEARNING_RATE] = 4e-4
    """The initial learning rate."""

    schedule: Annotated[Schedule, LIVE] = "adaptive"
    """`adaptive` keeps the KL of a mini-batch from the policies that acted near `desired_kl`; `linear` lowers the rate
    in each iteration, from `learning_rate` in the first to nearly 0 in the last of `iterations`."""

    desired_kl: Annotated[Positive, ADAPTIVE] = 0.06
    """See `schedule`. With older acting policies the steps become smaller."""

    gamma: Annotated[Fraction, LIVE] = 0.99
    """Discount per step."""

    vtrace: Annotated[bool, LIVE] = True
    """Whether experience of older policies is corrected by V-trace (arXiv 1802.01561). False: n-step returns, as if the
    learning policy had acted; with `clip: null` and `schedule: fixed` this is the method of the paper."""

    rho_clip: Annotated[Positive, OF_VTRACE] = 1.0
    """V-trace: upper limit of the ratio of probabilities in a step."""

    c_clip: Annotated[Positive, OF_VTRACE] = 1.0
    """V-trace: upper limit of the ratio for earlier steps; by its theory at most `rho_clip`."""

    clip: Annotated[Positive | None, LIVE] = 0.5
    """Clip range of the ratio as in PPO: an action stops moving the policy once its ratio is this far from 1 in the
    direction of its advantage. It works with and without V-trace. None: no limit, as published."""

    value_loss_coef: Annotated[float, Field(ge=0), LIVE] = 0.5
    """Weight of the squared error of values."""

    entropy_coef: Annotated[float, Field(ge=0), LIVE] = 0.0
    """Weight of the policy's entropy."""

    max_grad_norm: Annotated[Positive, LIVE] = 1.0
    """Largest norm of the policy's gradient, and of the value network's."""

    init_std: Annotated[Positive, BEGINNING] = 0.3
    """Initial standard deviation of the actions. More is mostly cut off by the limits of the actions."""

    bootstrap: Annotated[Literal["final_obs", "last_value"], LIVE] = "final_obs"
    """What follows a time-out: the value of the observation before the reset, or rsl_rl's approximation by the value
    one step earlier. Both are computed by the agent that acted."""

    @classmethod
    def for_task(cls, task: TaskSpec) -> Self:
        """See `LearnerConfig`; with categories or images, what is usual for games."""
        if task.action.categories or task.observation.of_kind("image"):
            return cls(
                **usual_network(task),
                reward_scale=task.reward_scale,
                horizon=16,
                entropy_coef=0.01,
                max_grad_norm=0.5,
                init_std=task.init_std,
            )
        return cls(hidden=task.hidden, reward_scale=task.reward_scale, init_std=task.init_std)

    def rollouts_of(self, actors: int, trainers: int) -> int:
        """See `LearnerConfig`."""
        return self.rollouts or super().rollouts_of(actors, trainers)

    @property
    def epochs(self) -> int:
        """See `LearnerConfig`: experience is used once."""
        return 1

    def memory_bytes(self, task: TaskSpec, num_env: int) -> int | None:
        """See `LearnerConfig`. On a GMI that trains, `num_env` counts the environments of all rollouts of an update.

        The batch is copied, and advantages are computed for all of it at once, which needs a layer's input and output
        at the same time.
        """
        networks = LEARNER_COPIES * self.bucket_bytes(task)
        kept = activations_per_sample(self.network, task.observation)
        scalars = ROLLOUT_COPIES * (task.action.size + BATCH_SCALARS) + ADVANTAGE_SCALARS
        activations = max(KEPT * 2 * kept // self.minibatches, kept)
        sample = ROLLOUT_COPIES * task.observation.nbytes + FLOAT_BYTES * (scalars + activations)
        return networks + (self.horizon * sample + self.state_bytes(task)) * num_env

    @property
    def lam(self) -> float:
        """Lambda of the actor's generalised advantage estimation: 1 gives n-step returns."""
        return 1.0
