"""The learner: updates an agent from rollouts (paper section 5.1, stages ii and iii)."""

import torch
from torch import Tensor

from gmi_drl.algo.agent import Agent, make_agent
from gmi_drl.algo.ppo import PPO
from gmi_drl.algo.rollout import Rollout
from gmi_drl.comm.reduction import Reduction
from gmi_drl.config.run_config import RunConfig, ppo_of
from gmi_drl.roles.training.agent_learner import AgentLearner
from gmi_drl.roles.training.iteration_stats import IterationStats
from gmi_drl.workload import TaskSpec


class Learner(AgentLearner):
    """Trains an agent by PPO. The agents of all learners of a group stay equal, bit by bit.

    Args:
        spec: The task's sizes.
        config: Of the run.
        reduction: Of the group.
        sample_share: Samples that this GMI learns from divided by those of the whole group.
        device: Of all tensors.
        seed: Of the order of samples.

    Attributes:
        agent: Trained in place. An actor on the same GMI may use this very object.
    """

    agent: Agent
    updater: PPO

    def __init__(
        self,
        spec: TaskSpec,
        config: RunConfig,
        reduction: Reduction,
        *,
        sample_share: float,
        device: torch.device,
        seed: int,
    ) -> None:
        self.spec, self.group, self.device = spec, reduction.group, device
        agent = make_agent(spec, ppo_of(config), device, seed=config.seed)
        updater = PPO(
            agent.policy,
            ppo_of(config),
            sample_share=sample_share,
            reduce=reduction.reduce,
            make_bucket=reduction.bucket,
            cuda_graphs=config.cuda_graphs,
        )
        super().__init__(agent, updater)
        self.generator = torch.Generator(device).manual_seed(seed)

    def update(self, rollout: Rollout, stats: IterationStats) -> None:
        """Learn from an evaluated rollout, gradients summed over the group, then merge the normaliser's deltas."""
        rollout.normalise_advantages(stats.advantage_mean, stats.advantage_std)
        self.updater.update(rollout, self.shuffled(rollout))
        self.agent.normaliser.merge(stats.deltas)

    def shuffled(self, rollout: Rollout) -> Tensor:
        """A random order of its units."""
        return torch.randperm(rollout.units, generator=self.generator, device=self.device)
