"""The learner: updates an agent from a ring."""

from collections.abc import Mapping

import torch
from torch import Tensor

from gmi_drl.algo.dqn import DQN, make_dqn_agent
from gmi_drl.algo.replay_agent import ReplayAgent
from gmi_drl.algo.replay_learner import ReplayLearner
from gmi_drl.algo.sac import SAC, make_sac_agent
from gmi_drl.comm.reduction import Reduction
from gmi_drl.config.learners import DQNConfig, OffPolicyConfig, SACConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.replay import Ring
from gmi_drl.replay.ring import RingBatch
from gmi_drl.roles.replay.exchange import Rings
from gmi_drl.roles.replay.offline_share import OfflineShare
from gmi_drl.roles.replay.server_ring import ServerRing
from gmi_drl.roles.training.agent_learner import AgentLearner
from gmi_drl.workload import TaskSpec

SMALLEST_PRIORITY = 1e-6
"""Added to errors: what has priority 0 would never be drawn again."""


class RingLearner(AgentLearner):
    """Draws batches from a ring, learns from them, and writes priorities back.

    Args:
        spec: Of the task.
        config: Of the run.
        reduction: Of the group.
        batch: Steps that this GMI draws for an update.
        device: Of all tensors.
        seed: Of the noise of updates.

    Attributes:
        largest: Importance weight of this GMI since the last exchange, float64 `[]`.
    """

    agent: ReplayAgent
    updater: ReplayLearner[DQNConfig] | ReplayLearner[SACConfig]

    def __init__(
        self, spec: TaskSpec, config: RunConfig, reduction: Reduction, *, batch: int, device: torch.device, seed: int
    ) -> None:
        self.config, self.group, self.device, self.batch = off_policy_of(config), reduction.group, device, batch
        self.generator = torch.Generator(device).manual_seed(seed)
        super().__init__(*_made(spec, config, reduction, batch, device, self.generator))
        self.largest = torch.zeros((), dtype=torch.float64, device=device)
        self._drawn: RingBatch | None = None
        has_data = self.config.replay.data is not None
        self.offline = OfflineShare(spec, self.config, self.group, device, seed) if has_data else None

    @property
    def online(self) -> int:
        """Steps of this GMI's batch that are drawn from its ring."""
        return self.offline.online(self.batch) if self.offline else self.batch

    def update(self, ring: Ring | ServerRing, rings: Rings, deltas: Tensor) -> None:
        """Do all updates of an iteration if every ring can be sampled, then merge the normaliser's deltas."""
        updater, config = self.updater, self.config
        updater.begin()
        updater.share.fill_(rings.share)
        is_prioritized = config.replay.sampler == "prioritized"
        if rings.are_ready:
            self.largest.zero_()
            for _ in range(config.updates):
                batch = self._draw(ring)
                errors = updater.update(batch, self._weights(batch, rings) if is_prioritized else None)
                if is_prioritized and len(batch.keys):  # all of it may be recorded
                    finite = torch.nan_to_num(errors, nan=0.0, posinf=0.0)  # the guard of losses ends such a run
                    ring.update(batch.keys, finite[: len(batch.keys)] + SMALLEST_PRIORITY)
        if deltas.shape[1]:
            self.agent.normaliser.merge(deltas)

    def _draw(self, ring: Ring | ServerRing) -> RingBatch:
        """The batch of an update."""
        if self.offline is None:
            self._drawn = ring.sample(self.batch, out=self._drawn)
            return self._drawn
        self._drawn, batch = self.offline.draw(ring, self.batch, self._drawn)
        return batch

    def draw(self, batch: int) -> None:
        """Draw `batch` steps for an update from now on."""
        if batch != self.batch:
            self.batch = batch
            self.forget_batches()
            self.updater.resize(batch)

    def forget_batches(self) -> None:
        """Free the memory of batches, and the graphs over it."""
        self._drawn = None
        if self.offline is not None:
            self.offline.forget()
        self.updater.release()

    def _weights(self, batch: RingBatch, rings: Rings) -> Tensor:
        """Importance weights `[batch]`: (windows x probability) ** -beta, of all rings together.

        Each GMI draws from its own ring, and its mean counts by its share of all weights: together that is a draw from
        all. The largest weight is about 1: what it was in the last iteration, over all GMIs, is the divisor.
        """
        beta = self.config.replay.beta_at(self.updater.steps)
        weights = (rings.windows * rings.share * batch.probabilities).pow(-beta)
        torch.maximum(self.largest, weights.max(), out=self.largest)
        return weights.div_(rings.largest).clamp_(max=1.0)

    def state_dict(self) -> dict[str, Tensor]:
        """The state that is equal on all learners of a group."""
        return {**super().state_dict(), "counts": self.updater.counts()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from `state_dict`."""
        super().load_state_dict(state)
        self.updater.steps, self.updater.updates = state["counts"].tolist()

    def local_state(self) -> dict[str, Tensor]:
        """The state of this learner alone."""
        state = {"learner_generator": self.generator.get_state(), "largest": self.largest}
        if self.offline is not None:
            state["offline_generator"] = self.offline.windows.generator.get_state()
        return state

    def load_local_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `local_state`."""
        self.generator.set_state(state["learner_generator"])
        self.largest.copy_(state["largest"])
        if self.offline is not None and "offline_generator" in state:  # else the run began without episodes
            self.offline.windows.generator.set_state(state["offline_generator"])


def off_policy_of(config: RunConfig) -> OffPolicyConfig:
    """The settings of DQN or SAC.

    Raises:
        UsageError: if the run has another learner.
    """
    if not isinstance(config.learner, OffPolicyConfig):
        raise UsageError(f"this is for learners from replay, dqn and sac; the run has {config.learner.kind}")
    return config.learner


def _made(
    spec: TaskSpec,
    config: RunConfig,
    reduction: Reduction,
    batch: int,
    device: torch.device,
    generator: torch.Generator,
) -> tuple[ReplayAgent, ReplayLearner[DQNConfig] | ReplayLearner[SACConfig]]:
    """The agent of a configuration, and what updates it."""
    learner = config.learner
    options = {
        "batch": batch,
        "reduce": reduction.reduce,
        "make_bucket": reduction.bucket,
        "generator": generator,
        "cuda_graphs": config.cuda_graphs,
    }
    if isinstance(learner, DQNConfig):
        agent = make_dqn_agent(spec, learner, device, seed=config.seed)
        return agent, DQN(agent, learner, **options)
    assert isinstance(learner, SACConfig)
    agent = make_sac_agent(spec, learner, device, seed=config.seed)
    return agent, SAC(agent, learner, **options)
