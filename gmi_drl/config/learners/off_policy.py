"""The settings of learners that act into a ring of replay and learn from it."""

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Annotated, Literal

from gmi_drl.config.learners.base import FLOAT_BYTES, KEPT, LEARNER_COPIES, Count, Fraction, LearnerConfig, Positive
from gmi_drl.config.learners.offline_data import mistakes_of_folder
from gmi_drl.config.settings import LEARNING_RATE, LIVE, NETWORKS, Setting
from gmi_drl.files import FileModel
from gmi_drl.layout.experience import NextObs, RolloutForm
from gmi_drl.layout.layout import Layout
from gmi_drl.workload import AGREED, TaskSpec
from gmi_drl.workload.network_sizes import Activation, NetworkSettings, activations_per_sample

RING = Setting(fixed="its ring cannot go on as another one")
OF_PRIORITIES = Setting(only_with=("sampler", "prioritized"))

OF_RINGS = ("size", "placement", "exponent", "next_obs", "stacks")
"""Settings of replay that a server's table has of its own."""

OFFLINE_SHARE = 0.5
"""The usual part of recorded steps in a batch."""

WORD = 8
"""Bytes that a row of replay is a multiple of."""

OUTCOME_BYTES = 8
"""Of a step's reward and flags."""

PRIORITY_BYTES = 9
"""Of a step's leaf in the tree of priorities, with its sums above."""

WINDOW_BYTES = 5
"""Of a step in a ring on a GPU: whether it may be drawn, and how many before it may."""

VALID_BYTES = 1
"""Of a step in a prioritized ring on a CPU: whether it may be drawn. Uniform draws need none there."""


class ReplaySettings(FileModel):
    """The ring of each GMI, which holds the steps of its own environments."""

    server: Annotated[str | None, LIVE] = None
    """`HOST:PORT/TABLE` of a replay server (`gmi-drl replay serve`), which takes the place of the rings: all GMIs write
    there and sample from there, and others may. Its token is in `$GMI_DRL_REPLAY_TOKEN`. The table has the fields
    `obs`, `action`, `reward`, `terminated`, and items of up to `n_step` + 1 rows. Its own selector and sizes count."""

    size: Annotated[Count, RING] = 1_000_000
    """Steps that a GMI keeps, of all its environments; of each environment at least those of two iterations."""

    placement: Annotated[Literal["cpu", "shared", "pinned", "device"] | None, LIVE] = None
    """Where the steps lie: memory of the process, a memfd, the same registered with CUDA, or the GPU. None: on the
    device that learns."""

    min_size: Annotated[Count, LIVE] = 1000
    """Steps of all GMIs together before the first update. Until then actions are random."""

    sampler: Annotated[Literal["uniform", "prioritized"], RING] = "uniform"
    """Whether each step is as likely, or by its last error (Schaul et al., arXiv 1511.05952)."""

    exponent: Annotated[Fraction, Setting(fixed=RING.fixed, only_with=OF_PRIORITIES.only_with)] = 0.6
    """Priorities are |error| to this power."""

    beta: Annotated[Fraction, OF_PRIORITIES] = 0.4
    """Exponent of the importance weights."""

    beta_steps: Annotated[Count | None, OF_PRIORITIES] = None
    """Steps of all environments in which `beta` rises to 1, evenly. None: it stays."""

    n_step: Annotated[Count, RING] = 1
    """Steps of a return before the value of what follows."""

    next_obs: Annotated[NextObs, RING] = "once"
    """`once` reads the next observation from the step that follows, in half the memory. `twice` stores it with each
    step, too; then steps at which the time limit ended an episode are learnt from as well."""

    data: Annotated[str | None, LIVE] = None
    """A folder of recorded episodes, which `gmi-drl replay import` wrote, to learn from besides. Each GMI has every
    n-th of them. A relative path begins where the command runs."""

    offline_share: Annotated[Fraction | None, LIVE] = None
    """Share of each batch that is from `data`, as RLPD (Ball et al., arXiv 2302.02948). None: half."""

    stacks: Annotated[Literal["first", "zeros"] | None, RING] = None
    """For images that are stacks of pictures, the newest last: with what an episode's first stack begins, its first
    picture again, or zeros. Then the ring stores each picture once. None: it stores images as they are."""

    saved: Annotated[bool, LIVE] = True
    """Whether checkpoints hold the ring. Without it a resumed run begins with an empty one."""

    @property
    def used_share(self) -> float:
        """The share of recorded steps in a batch."""
        if self.data is None:
            return 0.0
        return OFFLINE_SHARE if self.offline_share is None else self.offline_share

    def beta_at(self, steps: int) -> float:
        """The exponent of the importance weights after these control steps of all environments."""
        done = min(1.0, steps / self.beta_steps) if self.beta_steps else 0.0
        return self.beta + done * (1.0 - self.beta)


class OffPolicyConfig(LearnerConfig):
    """What DQN and SAC have in common. An iteration is `horizon` steps into the ring, then the updates."""

    hidden: Annotated[tuple[Count, ...], NETWORKS] = (256, 256)
    """Widths of the hidden layers of each network."""

    activation: Annotated[Activation, NETWORKS] = "relu"
    """Follows each hidden layer."""

    horizon: Annotated[Count, RING] = 32
    """Control steps per environment before the updates of an iteration. A resumed run keeps it: the room of its ring
    depends on it."""

    updates_per_step: Annotated[Positive, LIVE] = 1.0
    """Updates per control step of all environments. An iteration has this times `horizon`, rounded, at least one."""

    batch: Annotated[Count, LIVE] = 256
    """Steps that an update learns from, over all GMIs."""

    learning_rate: Annotated[Positive, LEARNING_RATE] = 3e-4
    """The learning rate of all networks."""

    gamma: Annotated[Fraction, RING] = 0.99
    """Discount per step."""

    normalise: Annotated[bool, Setting(fixed="its networks expect what they were trained with")] = False
    """Whether vectors of observations are scaled to mean 0 and variance 1."""

    replay: ReplaySettings = ReplaySettings()
    """The ring of replay."""

    @property
    def updates(self) -> int:
        """Updates of an iteration."""
        return max(1, round(self.updates_per_step * self.horizon))

    @property
    def epochs(self) -> int:
        """See `LearnerConfig`: each update has its own batch."""
        return 1

    @property
    def minibatches(self) -> int:
        """See `LearnerConfig`: the updates of an iteration."""
        return self.updates

    @property
    def has_fixed_updates(self) -> bool:
        """See `LearnerConfig`."""
        return True

    @property
    def network(self) -> NetworkSettings:
        """See `LearnerConfig`."""
        return NetworkSettings(hidden=self.hidden, activation=self.activation)

    def units_of(self, num_env: int) -> int:
        """See `LearnerConfig`: each update draws its own batch, so there are never too few for the updates."""
        return max(super().units_of(num_env), self.updates)

    def num_weights(self, task: TaskSpec) -> int:
        """Weights of all networks, without targets."""
        raise NotImplementedError

    def bucket_bytes(self, task: TaskSpec) -> int:
        """See `LearnerConfig`."""
        return FLOAT_BYTES * (self.num_weights(task) + AGREED)

    def ring_steps(self, num_env: int) -> int:
        """Steps of each environment in the ring of a GMI."""
        return max(-(-self.replay.size // num_env), 2 * self.horizon, self.replay.n_step + 2)

    def rows_of_rollouts(self, steps: int) -> int:
        """Rows for so many steps of rollouts of other GMIs: with `next_obs: once` one more follows each rollout."""
        return steps if self.replay.next_obs == "twice" else -(-steps * (self.horizon + 1) // self.horizon)

    def ring_bytes(
        self, task: TaskSpec, num_env: int, *, of_rollouts: bool = False, on_gpu: bool = True
    ) -> tuple[int, int]:
        """See `LearnerConfig`."""
        if self.replay.server is not None:
            return 0, 0
        steps = self.ring_steps(num_env)
        rows = self.rows_of_rollouts(steps) if of_rollouts else steps
        step = self.step_bytes(task) + (WORD if of_rollouts else 0)  # these have a version
        size, draws = (rows * num_env * each for each in (step, self.draw_bytes(on_gpu)))
        return (draws, size) if self.replay.placement == "pinned" else (size + draws, 0)

    def growth_bytes(self, task: TaskSpec, rows: int) -> int:
        """At most the bytes that a checkpoint gains until these rows of a ring are written; 0 if it holds none.

        Priorities are in it from the beginning.
        """
        return rows * (self.step_bytes(task) + WORD) if self.replay.saved else 0

    def rollout_form(self, task: TaskSpec, num_env: int, num_terms: int = 0) -> RolloutForm:
        """See `LearnerConfig`."""
        return replace(super().rollout_form(task, num_env, num_terms), next_obs=self.replay.next_obs)

    def step_bytes(self, task: TaskSpec) -> int:
        """Bytes of a step of its own in a ring: observation, action, reward, flags."""
        times = 2 if self.replay.next_obs == "twice" else 1
        seen = task.observation.nbytes // (task.observation.shape[0] if self.replay.stacks else 1)
        row = times * seen + FLOAT_BYTES * task.action.size
        return -(-row // WORD) * WORD + OUTCOME_BYTES

    def draw_bytes(self, on_gpu: bool) -> int:
        """Bytes by which a step of a ring is drawn, on the device that learns."""
        if self.replay.sampler == "prioritized":
            return PRIORITY_BYTES + (WINDOW_BYTES if on_gpu else VALID_BYTES)
        return WINDOW_BYTES if on_gpu else 0

    def memory_bytes(self, task: TaskSpec, num_env: int) -> int | None:
        """See `LearnerConfig`: networks and targets, the ring, and a batch. Steps that are `pinned` are on the host."""
        networks = (LEARNER_COPIES + 1) * self.bucket_bytes(task)
        ring, _ = self.ring_bytes(task, num_env)
        kept = activations_per_sample(self.network, task.observation)
        seen = 2 * task.observation.nbytes + FLOAT_BYTES * KEPT * 2 * kept
        return networks + ring + self.batch * seen

    def check(self, task: TaskSpec, groups: Collection[str] | None) -> list[str]:
        """See `LearnerConfig`: sizes that do not go together."""
        replay, found = self.replay, list[str]()
        if replay.offline_share is not None and replay.data is None:
            found.append("learner.replay.offline_share has no effect without learner.replay.data: give that, too")
        if replay.server is not None:
            usual = type(self).for_task(task).replay
            changed = [name for name in OF_RINGS if getattr(replay, name) != getattr(usual, name)]
            found += [
                f"learner.replay.{name} has no effect with learner.replay.server: leave it out" for name in changed
            ]
            return found
        if replay.n_step > replay.size - 1:
            found.append(
                f"learner.replay.n_step is {replay.n_step}, but {replay.size} steps have windows of "
                f"{replay.size - 1} at most: lower it"
            )
        if replay.stacks and (text := _no_stack(task)):
            found.append(f"learner.replay.stacks is for images that are stacks of pictures, {text}: leave it out")
        if replay.stacks and replay.next_obs == "twice":
            found.append("learner.replay.stacks stores pictures once, next_obs is twice: leave one out")
        return found

    def mistakes_in(self, layout: Layout) -> list[str]:
        """See `LearnerConfig`: a GMI's part of the least size, or of a batch, that its ring has no room for.

        Also recorded episodes that are missing, or too few.
        """
        found = list[str]()
        if self.replay.data is not None:
            found += mistakes_of_folder("learner.replay.data", self.replay.data, len(layout.with_role("trainer")))
        if layout.channels is not None:
            found += self._mistakes_from_channels()
        if self.replay.server is not None:
            return found
        sizes = {gmi.num_env for gmi in layout.with_role("simulator")}
        whole = layout.num_env
        if layout.channels is not None:
            worlds = self.environments_of(layout)
            sizes, whole = {worlds}, worlds * len(layout.with_role("trainer"))
        for num_env in sorted(sizes):
            steps, part = self.ring_steps(num_env) * num_env, num_env / whole
            for name, wanted in (("learner.replay.min_size", self.replay.min_size), ("learner.batch", self.batch)):
                if (own := math.ceil(wanted * part)) > steps:
                    of = f"a GMI with {num_env} of {whole} environments"
                    found.append(f"{name} is {wanted}, of which {of} needs {own}, but its ring has {steps}: lower it")
        return found

    def _mistakes_from_channels(self) -> list[str]:
        """What rings of rollouts of other GMIs cannot be: each rollout is by itself in its rows."""
        replay, found = self.replay, list[str]()
        where = "is for GMIs that act and train, not for rollouts of other GMIs: leave it out"
        found += [f"learner.replay.{name} {where}" for name in ("server", "stacks") if getattr(replay, name)]
        if replay.next_obs == "once" and replay.n_step > self.horizon:
            text = f"learner.replay.n_step is {replay.n_step}, and rollouts have {self.horizon} steps (learner.horizon)"
            found.append(f"{text}: lower it, or store learner.replay.next_obs=twice, which shortens the last windows")
        return found


def _no_stack(task: TaskSpec) -> str | None:
    """Why the observation of a task is no stack of pictures; None if it may be one."""
    parts, shape = task.observation.parts, task.observation.shape
    if len(parts) > 1 or parts[0].kind != "image":
        return f"{task.name} has {task.observation}"
    return None if shape[0] > 1 else f"{task.name} has one picture of {shape[1]} x {shape[2]}"
