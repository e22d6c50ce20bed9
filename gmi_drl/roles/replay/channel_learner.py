"""DQN and SAC as a trainer with channels uses them: rollouts go into its ring, and it learns from that."""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from gmi_drl.algo.experience_batch import ReplayBatch
from gmi_drl.comm.reduction import Reduction
from gmi_drl.config.run_config import RunConfig
from gmi_drl.replay import Ring
from gmi_drl.replay.ring import RingBatch
from gmi_drl.roles.decoupled.channel_learner import ChannelLearner
from gmi_drl.roles.precision import flush_denormals
from gmi_drl.roles.replay.dealt_rollouts import Part, deal_rollouts
from gmi_drl.roles.replay.exchange import facts_of, rings_of
from gmi_drl.roles.replay.learner import RingLearner, off_policy_of
from gmi_drl.roles.replay.make_ring import make_ring
from gmi_drl.roles.replay.ring_state import load_ring, ring_tensors
from gmi_drl.roles.replay.rollouts import VERSION, add_rollouts
from gmi_drl.roles.replay.server_ring import ServerRing
from gmi_drl.roles.seeds import SEEDS
from gmi_drl.roles.training.iteration_stats import IterationStats
from gmi_drl.workload import TaskSpec


class AgedLearner(RingLearner):
    """A `RingLearner` that notes how old the policies are whose steps it draws.

    Attributes:
        version: Of the policy that learns.
    """

    version = 0

    def forget_ages(self) -> None:
        """Begin anew."""
        self._ages = torch.zeros(2, dtype=torch.float64, device=self.device)  # sum, largest
        self._noted = 0

    def ages(self) -> dict[str, float]:
        """Mean and largest age of what was drawn, in versions, if something was. Waits for the device."""
        total, largest = self._ages.tolist()
        return {"replay_age_mean": total / self._noted, "replay_age_max": largest} if self._noted else {}

    def _draw(self, ring: Ring | ServerRing) -> RingBatch:
        batch = super()._draw(ring)
        if self._drawn is not None:
            ages = self.version - self._drawn.fields[VERSION.name]
            self._ages[0] += ages.sum()
            torch.maximum(self._ages[1], ages.max(), out=self._ages[1])
            self._noted += len(ages)
        return batch


class ReplayChannelLearner(ChannelLearner[ReplayBatch]):
    """See `ChannelLearner`. Each trainer has a ring of the rollouts that came to it, and draws its part of a batch.

    Args:
        spec: Of the task.
        config: Of the run.
        reduction: Of the trainers.
        num_env: Environments of all rollouts of an update of this trainer.
        version: Of the policy at the start.
        device: Of all tensors.
        seed: Of what is drawn, and of the noise of updates.
    """

    batch_type = ReplayBatch
    keeps_batch = False

    def __init__(
        self,
        spec: TaskSpec,
        config: RunConfig,
        reduction: Reduction,
        *,
        num_env: int,
        version: int,
        device: torch.device,
        seed: int,
    ) -> None:
        flush_denormals()
        self._spec, self._group, self.device = spec, reduction.group, device
        batch = max(1, round(off_policy_of(config).batch / self._group.size))
        self.learner = AgedLearner(spec, config, reduction, batch=batch, device=device, seed=seed)
        self.learner.version = version
        super().__init__(self.learner.agent, self.learner.updater)
        self.learner.forget_ages()
        self._config, self._steps = self.learner.config, 0
        of_ring = (seed + 1) % SEEDS  # other numbers than those of the updates' noise
        everyone = num_env * self._group.size
        self.ring = make_ring(spec, self._config, num_env, everyone, device, of_ring, of_rollouts=True)
        self._stored = 0.0
        self.learner.updater.explore(0)

    @property
    def published(self) -> list[Tensor]:
        """See `ChannelLearner`: also the share of random actions."""
        agent = self.learner.agent
        return [self.learner.updater.flat.vector, agent.normaliser.statistics, agent.policy.exploration]

    def take(self, batch: ReplayBatch, version: int) -> Tensor:
        """See `ChannelLearner`: copy the batch into the ring. Returns the facts of that."""
        add_rollouts(self.ring, batch)
        self._steps = self._group.size * batch.reward.numel()
        known, on_device = facts_of(self.ring, self.learner.largest, self.learner.online)
        return torch.cat((known.to(self.device), on_device))

    def learn(self, stats: IterationStats) -> None:
        """See `ChannelLearner`: all updates of an iteration, if every ring can be sampled."""
        learner, rings = self.learner, rings_of(stats.told, self._group.rank)
        self._stored = rings.windows
        learner.forget_ages()
        learner.updater.steps += self._steps
        learner.update(self.ring, rings, stats.deltas if self._config.normalise else stats.deltas[:, :0])
        learner.version += 1
        learner.updater.explore(0)

    def metrics(self) -> dict[str, float]:
        """See `Replica`. Ages are those of this trainer's ring."""
        return {**super().metrics(), "replay_steps": self._stored, **self.learner.ages()}

    def state_dict(self) -> dict[str, Tensor]:
        """See `Replica.learner_state`."""
        return self.learner.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from `state_dict`."""
        self.learner.load_state_dict(state)
        self.learner.updater.explore(0)

    def local_state(self) -> dict[str, Tensor]:
        """See `ChannelLearner`: generators, and the ring, if that is saved."""
        return {**self.learner.local_state(), **(ring_tensors(self.ring) if self._config.replay.saved else {})}

    def load_local_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `local_state`."""
        self.learner.load_local_state(state)
        load_ring(self.ring, state, goes_on=True)  # rollouts are complete, whatever environments do

    def deal(self, parts: Callable[[], Iterable[Part]]) -> None:
        """Begin with this trainer's share of the rings of a checkpoint; see `deal_rollouts`."""
        num_env = self.ring.num_env
        deal_rollouts(self.ring, parts, self._group.rank * num_env, self._group.size * num_env)

    def growth_bytes(self) -> int:
        """See `ChannelLearner`: the room that is left in the ring, if that is saved."""
        return self._config.growth_bytes(self._spec, self.ring.free)
