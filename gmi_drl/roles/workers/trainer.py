"""The trainer worker: it learns by PPO from batches of rollouts of other GMIs (SRL, section 2.2.2)."""

from dataclasses import replace

import torch
from torch import Tensor

from gmi_drl.algo import judged
from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.algo.rollout import Rollout
from gmi_drl.comm.reduction import Reduction
from gmi_drl.config.run_config import RunConfig, ppo_of
from gmi_drl.layout.experience import FACTS
from gmi_drl.roles.decoupled.channel_learner import ChannelLearner
from gmi_drl.roles.decoupled.trainer import Trainer
from gmi_drl.roles.seeds import seed_of
from gmi_drl.roles.training.iteration_stats import IterationStats, mean_and_std
from gmi_drl.roles.training.learner import Learner
from gmi_drl.workload import TaskSpec


class ChannelPPO(Learner, ChannelLearner[ExperienceBatch]):
    """PPO from channels: see `ChannelLearner`, and `Learner` for what it shares with TCG_EX.

    Args:
        spec: The task's sizes.
        config: Of the run.
        reduction: Of the trainers.
        device: Of all tensors.
        seed: Of the order of samples.
    """

    batch_type = ExperienceBatch
    _rollout: Rollout | None = None

    def __init__(
        self, spec: TaskSpec, config: RunConfig, reduction: Reduction, *, device: torch.device, seed: int
    ) -> None:
        super().__init__(spec, config, reduction, sample_share=1 / reduction.group.size, device=device, seed=seed)
        self._config = ppo_of(config)

    @property
    def published(self) -> list[Tensor]:
        """See `ChannelLearner`."""
        return [self.updater.flat.vector, self.agent.normaliser.statistics]

    def take(self, batch: ExperienceBatch, version: int) -> Tensor:
        """See `ChannelLearner`: judge the batch by the policy as it is now. Returns moments of its advantages `[3]`."""
        rollouts, _, num_env = batch.reward.shape
        if self._rollout is None:
            self._rollout = Rollout(self._config.rollout_form(self.spec, rollouts * num_env), self.device)
        judged.fill(self._rollout, batch)
        is_older = batch.facts[:, FACTS.index("version")] < version
        judged.judge(self._rollout, self.agent, self._config, is_older.repeat_interleave(num_env))
        return self._rollout.advantage_moments()

    def learn(self, stats: IterationStats) -> None:
        """See `ChannelLearner`."""
        assert self._rollout is not None
        mean, std = mean_and_std(stats.told)
        self.update(self._rollout, replace(stats, advantage_mean=mean, advantage_std=std))


class PPOTrainer(Trainer):
    """Trains as the trainer of asynchronous training does, by PPO."""

    def make_learner(self, spec: TaskSpec, start: int) -> ChannelPPO:
        """See `Trainer`. The order of samples has the seed of the GMI of TCG_EX with the same rank."""
        rank = self.reduction.group.rank
        seed = seed_of(self.config, start, rank, "learner")
        return ChannelPPO(spec, self.config, self.reduction, device=self.mgr.device, seed=seed)
