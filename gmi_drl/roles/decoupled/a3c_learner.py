"""A3C as a trainer with channels uses it."""

import torch
from torch import Tensor

from gmi_drl.algo.a3c import A3C
from gmi_drl.algo.agent import Agent, make_agent
from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.comm.reduction import Reduction
from gmi_drl.config.run_config import RunConfig, a3c_of
from gmi_drl.roles.decoupled.channel_learner import ChannelLearner
from gmi_drl.roles.training.iteration_stats import NOTHING, IterationStats
from gmi_drl.workload import TaskSpec


def make_a3c(spec: TaskSpec, config: RunConfig, reduction: Reduction, device: torch.device) -> A3C:
    """The learner, the same on all trainers of a reduction."""
    agent = make_agent(spec, a3c_of(config), device, seed=config.seed)
    return A3C(
        agent.policy,
        agent.normaliser,
        a3c_of(config),
        sample_share=1 / reduction.group.size,
        reduce=reduction.reduce,
        make_bucket=reduction.bucket,
        cuda_graphs=config.cuda_graphs,
    )


class A3CLearner(ChannelLearner[ExperienceBatch]):
    """See `ChannelLearner`.

    Args:
        a3c: The same on all trainers.
    """

    updater: A3C
    batch_type = ExperienceBatch

    def __init__(self, a3c: A3C) -> None:
        super().__init__(Agent(a3c.policy, a3c.normaliser), a3c)
        self.device = a3c.flat.vector.device

    @property
    def published(self) -> list[Tensor]:
        """See `ChannelLearner`."""
        return [self.updater.flat.vector, self.agent.normaliser.statistics]

    def take(self, batch: ExperienceBatch, version: int) -> Tensor:
        """See `ChannelLearner`: the others need not know anything of it."""
        self._batch = batch
        return NOTHING

    def learn(self, stats: IterationStats) -> None:
        """See `ChannelLearner`."""
        self.updater.update(self._batch)
        self.agent.normaliser.merge(stats.deltas)
