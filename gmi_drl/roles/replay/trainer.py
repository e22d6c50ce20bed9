"""The trainer of asynchronous training from replay (`--template decoupled --algo sac`)."""

from gmi_drl.roles.decoupled.trainer import Trainer
from gmi_drl.roles.replay.channel_learner import ReplayChannelLearner
from gmi_drl.workload import TaskSpec


class ReplayTrainer(Trainer):
    """Trains as the trainer of asynchronous training does, from a ring of the rollouts that came to it."""

    def make_learner(self, spec: TaskSpec, start: int) -> ReplayChannelLearner:
        """See `Trainer`."""
        return ReplayChannelLearner(
            spec,
            self.config,
            self.reduction,
            num_env=self.config.learner.environments_of(self.mgr.layout),
            version=start,
            device=self.mgr.device,
            seed=self.seed(start, "learner"),
        )
