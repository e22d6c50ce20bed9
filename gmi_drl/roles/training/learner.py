"""The learner: updates an agent from rollouts (paper section 5.1, stages ii and iii)."""

import torch
from torch import Tensor

from gmi_drl.algo.agent import make_agent
from gmi_drl.algo.ppo import PPO
from gmi_drl.algo.rollout import Rollout
from gmi_drl.comm.reduction import Reduction
from gmi_drl.config.run_config import RunConfig, ppo_of
from gmi_drl.roles.training.iteration_stats import IterationStats
from gmi_drl.workload import TaskSpec


class Learner:
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
        self.agent = make_agent(spec, ppo_of(config), device, seed=config.seed)
        self.ppo = PPO(
            self.agent.policy,
            ppo_of(config),
            sample_share=sample_share,
            reduce=reduction.reduce,
            make_bucket=reduction.bucket,
            cuda_graphs=config.cuda_graphs,
        )
        self.generator = torch.Generator(device).manual_seed(seed)

    def update(self, rollout: Rollout, stats: IterationStats) -> None:
        """Learn from an evaluated rollout, gradients summed over the group, then merge the normaliser's deltas."""
        rollout.normalise_advantages(stats.advantage_mean, stats.advantage_std)
        self.ppo.update(rollout, self.shuffled(rollout))
        self.agent.normaliser.merge(stats.deltas)

    def shuffled(self, rollout: Rollout) -> Tensor:
        """A random order of its units."""
        return torch.randperm(rollout.units, generator=self.generator, device=self.device)

    def metrics(self) -> dict[str, float]:
        """Losses of the last update and the learning rate. Synchronises with the host."""
        return self.ppo.metrics()

    def set_learning_rate(self, rate: float) -> None:
        """Go on with another learning rate."""
        self.ppo.learning_rate.fill_(rate)

    def state_dict(self) -> dict[str, Tensor]:
        """The state that is equal on all learners of a group. The generator of the order of samples is not in it."""
        return {**self.ppo.state_dict(), "normaliser": self.agent.normaliser.statistics}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from `state_dict`."""
        self.agent.normaliser.load(state["normaliser"])
        self.ppo.load_state_dict(state)
