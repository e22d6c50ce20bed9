"""The base class of learners' configurations."""

import json
import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, Field, SerializeAsAny

from gmi_drl.config.learners.entries import LEARNERS, OUR_PPO
from gmi_drl.config.settings import LIVE, RUN
from gmi_drl.errors import GmiError
from gmi_drl.files import FileModel
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.layout.layout import Layout
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.network_sizes import NetworkSettings, activations_per_sample

Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]

FLOAT_BYTES = 4

LEARNER_COPIES = 6
"""Copies of the parameters: themselves, gradients, their sum, two moments of Adam, temporaries of a step."""

ROLLOUT_COPIES = 2
"""Copies of the rollout: itself, and its shuffled copy."""

KEPT = 3
"""Most numbers kept for the backward pass, per hidden unit and sample of a mini-batch."""


class LearnerConfig(FileModel):
    """The section `learner` of a run's configuration: a model of its own for each kind (`learners.LEARNERS`).

    The annotation of a field (`settings.Setting`) says whether a resumed run may change it: `hidden` has `NETWORKS`,
    which refuses a change. Fields without an annotation may change.
    """

    kind: Annotated[str, RUN]
    """The kind of learner, which decides the other fields of the section."""

    reward_scale: Annotated[Positive, LIVE] = 1.0
    """Factor of the task's rewards. It brings returns to the order of ten, as clipping of the value loss assumes."""

    @classmethod
    def for_task(cls, task: TaskSpec) -> Self:
        """The settings of a new run of a task."""
        raise NotImplementedError

    @classmethod
    def model_for(cls, data: object) -> type[FileModel]:
        """See `FileModel`: the model of the kind."""
        return model_of(data) if isinstance(data, dict) else cls

    if TYPE_CHECKING:  # fields in some kinds, properties in others: pydantic allows no field in place of a property

        @property
        def horizon(self) -> int:
            """The paper's m: control steps per environment before each update."""
            raise NotImplementedError

        @property
        def epochs(self) -> int:
            """How often an update uses each of its samples."""
            raise NotImplementedError

        @property
        def minibatches(self) -> int:
            """Mini-batches per epoch. Each is a step of the optimizer, with a reduction of the gradients."""
            raise NotImplementedError

        @property
        def learning_rate(self) -> float:
            """The initial learning rate."""
            raise NotImplementedError

        @property
        def hidden(self) -> tuple[int, ...]:
            """Widths of the hidden layers of the larger network, for `bucket_bytes` and `memory_bytes`."""
            raise NotImplementedError

    @property
    def network(self) -> NetworkSettings:
        """What is set of the networks, for `bucket_bytes` and `memory_bytes`."""
        return NetworkSettings(self.hidden)

    def rate_at(self, iteration: int, iterations: int) -> float | None:
        """The learning rate of one of so many iterations, the first is 1; None if the learner keeps or adapts it."""
        return None

    @property
    def own_logger(self) -> str | None:
        """The key that makes the learner write metrics into the run folder itself; None if it does not."""
        return None

    @property
    def has_shards(self) -> bool:
        """Whether its GMIs have shards of trajectories, for which they are linked beside their reduction."""
        return False

    def rollouts_of(self, actors: int, trainers: int) -> int:
        """R, the rollouts of actors on other GMIs that each of these trainers learns from in one update."""
        return math.ceil(actors / trainers)

    @property
    def has_fixed_updates(self) -> bool:
        """Whether an update takes as long whatever the number of rollouts: it learns from batches of its own size."""
        return False

    def environments_of(self, layout: Layout) -> int:
        """Environments whose rollouts a GMI that trains learns from at once; the fewest, if GMIs differ."""
        actors, trainers = layout.with_role("simulator"), layout.with_role("trainer")
        if layout.channels is None:
            return min(gmi.num_env for gmi in actors)
        return self.rollouts_of(len(actors), len(trainers)) * actors[0].num_env

    def mistakes_in(self, layout: Layout) -> list[str]:
        """The mistakes that prevent learning on a layout, each in a sentence with its remedy."""
        return []

    def rollout_form(self, task: TaskSpec, num_env: int, num_terms: int = 0) -> RolloutForm:
        """The sizes of a rollout of `num_env` environments that report `num_terms` terms of the reward."""
        return RolloutForm(self.horizon, num_env, task.observation, task.action, num_terms)

    def steps_of(self, layout: Layout) -> int:
        """Control steps of an iteration, over all environments; with channels, of the rollouts of all trainers."""
        if layout.channels is None:
            return self.horizon * layout.num_env
        return len(layout.with_role("trainer")) * self.environments_of(layout) * self.horizon

    def units_of(self, num_env: int) -> int:
        """How many units the rollouts of `num_env` environments have, which mini-batches divide: transitions."""
        return num_env * self.horizon

    @property
    def unit(self) -> str:
        """What mini-batches divide, in words."""
        return "transitions"

    def channels_bytes(self, layout: Layout, task: TaskSpec) -> int:
        """Bytes of a layout's channels for one trainer; 0 without channels."""
        if layout.channels is None:
            return 0
        actors, trainers = layout.with_role("simulator"), layout.with_role("trainer")
        rollouts = self.rollouts_of(len(actors), len(trainers))
        return self.batches_bytes(task, layout.channels, rollouts, actors[0].num_env)

    def batches_bytes(self, task: TaskSpec, channels: Channels, rollouts: int, num_env: int) -> int:
        """Bytes of channels for one trainer: `max_lag + 1` batches of `rollouts` rollouts, without their queues."""
        return channels.batches * self.rollout_form(task, num_env).offsets(rollouts)[-1]

    def request_bytes(self, task: TaskSpec) -> int:
        """Bytes of an environment's part of a request for an action (`roles.workers.forward`)."""
        numbers = task.action.params + self.network.state_size(task.observation)
        return task.observation.nbytes + FLOAT_BYTES * numbers

    def answer_bytes(self, task: TaskSpec) -> int:
        """Bytes of an environment's part of the answer: its action, density, value and the state of its memory."""
        return FLOAT_BYTES * (task.action.size + 2 + self.network.state_size(task.observation))

    def ring_bytes(
        self, task: TaskSpec, num_env: int, *, of_rollouts: bool = False, on_gpu: bool = True
    ) -> tuple[int, int]:
        """Bytes of the ring of replay of a GMI of `num_env` environments: on its device, and on a GPU's host.

        With `of_rollouts` these are environments of other GMIs, whose rollouts it gets. On a CPU it may need less.
        """
        return 0, 0

    def bucket_bytes(self, task: TaskSpec) -> int:
        """Bytes of the float32 bucket that GMIs reduce."""
        return task.bucket_bytes(self.network)

    def state_bytes(self, task: TaskSpec) -> int:
        """Bytes of the states of memories that are stored with the rollout of an environment, and of their copy."""
        stored = self.units_of(1) + 1
        return ROLLOUT_COPIES * FLOAT_BYTES * self.network.state_size(task.observation) * stored

    def memory_bytes(self, task: TaskSpec, num_env: int) -> int | None:
        """An upper estimate of the bytes for learning on a GMI of `num_env` environments: networks, optimizer, samples.

        Environments and the process are not included. If the estimate for all GMIs fits the memory, nothing is measured
        before a training; if not, or if there is none (None), a few environments are measured first. This one is for
        two networks, Adam, a rollout of observations, actions and the params of their distributions, and a mini-batch
        of it. A learner that keeps more, e.g. a replay buffer, must override it. If the learner has no
        probe, the bytes beyond those of our PPO are added to the measurement of PPO.
        """
        networks = LEARNER_COPIES * self.bucket_bytes(task)
        step = task.observation.nbytes + FLOAT_BYTES * (task.action.size + task.action.params)
        rollout = self.horizon * ROLLOUT_COPIES * step + self.state_bytes(task)
        kept = activations_per_sample(self.network, task.observation)
        activations = FLOAT_BYTES * self.horizon * KEPT * 2 * kept // self.minibatches
        return networks + (rollout + activations) * num_env

    def check(self, task: TaskSpec, groups: Collection[str] | None) -> list[str]:
        """The mistakes that prevent learning a task, each in a sentence with its remedy; empty if there are none.

        Called before a training or a measurement starts, and again in each GMI when its environments exist.

        Args:
            task: The sizes of the task.
            groups: The environments' groups of observations; None before the simulator, which knows them, has started.
        """
        return []


def model_of(section: dict[str, Any]) -> type[LearnerConfig]:
    """The class that checks a section of a file, by its `kind`; without one our PPO's.

    Raises:
        ValueError: if there is no such kind.
    """
    kind = section.get("kind", OUR_PPO.name)
    if not isinstance(kind, str):
        raise ValueError(f"kind must be text, not {kind!r}")
    try:
        return LEARNERS.find(kind).model
    except GmiError as error:
        raise ValueError(str(error)) from None


def _of_its_kind(section: Any) -> Any:
    """What is no section is left to pydantic: a model of a kind, or a mistake."""
    if not isinstance(section, dict):
        return section
    return model_of(section).model_validate_json(json.dumps(section, default=str))


AnyLearnerConfig = Annotated[SerializeAsAny[LearnerConfig], BeforeValidator(_of_its_kind)]
"""The field of a configuration: takes the model of any kind, and a file's section by its `kind`."""
