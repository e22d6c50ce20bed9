"""The probe of our PPO."""

from typing import ClassVar

from gmi_drl.roles.probes.probe import LastingReplicaProbe
from gmi_drl.roles.training.learner import Learner
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.tasks import Task


class PPOProbe(LastingReplicaProbe):
    """Measures the `PPOReplica` that `Holistic` trains."""

    replica: PPOReplica | None = None
    learner_class: ClassVar[type[Learner]] = Learner

    def make_replica(self, task: Task) -> PPOReplica:
        """See `LastingReplicaProbe`."""
        return PPOReplica(
            task.spec,
            self.config,
            self.mgr.reduction(self.group),
            sample_share=self.sample_share,
            device=self.mgr.device,
            seed=self.seed("learner"),
            learner_class=self.learner_class,
        )

    def set_share(self, task: Task) -> None:
        """See `LastingReplicaProbe`."""
        assert self.replica is not None
        self.replica.learner.updater.sample_share = self.sample_share
