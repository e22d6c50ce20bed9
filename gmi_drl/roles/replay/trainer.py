"""The trainer of asynchronous training from replay (`--template decoupled --algo sac`)."""

from pathlib import Path
from typing import Any

from gmi_drl.roles.decoupled.trainer import Trainer
from gmi_drl.roles.replay.channel_learner import ReplayChannelLearner
from gmi_drl.roles.replay.ring_state import saved_parts
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

    def restore(self, saved: Path, index: dict[str, Any]) -> None:
        """See `Holistic`. On another layout of one host the rings of the checkpoint are dealt out anew."""
        super().restore(saved, index)
        layout, learner = self.mgr.layout, self.replica.learner
        if index["layout"] != layout.digest and len(layout.nodes) == 1:
            assert isinstance(learner, ReplayChannelLearner)
            learner.deal(lambda: saved_parts(saved, index))
