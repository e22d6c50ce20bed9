"""The probe of our PPO."""

from typing import ClassVar

from gmi_drl.roles.probes.probe import ReplicaProbe
from gmi_drl.roles.training.learner import Learner
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.tasks import Task


class PPOProbe(ReplicaProbe):
    """Measures the `PPOReplica` that `Holistic` trains.

    The learner stays when the number of environments changes, so that all numbers share one start-up.
    """

    replica: PPOReplica | None = None
    learner_class: ClassVar[type[Learner]] = Learner

    @property
    def warm_up_iterations(self) -> int:
        """See `Probe`."""
        assert self.replica is not None
        return self.replica.warm_up_iterations

    def detach_task(self) -> None:
        """See `Probe`."""
        if self.replica is not None:
            self.replica.detach_task()

    def make_replica(self, task: Task) -> PPOReplica:
        """See `ReplicaProbe`; it has no task yet."""
        return PPOReplica(
            task.spec,
            self.config,
            self.mgr.reduction(self.group),
            sample_share=self.sample_share,
            device=self.mgr.device,
            seed=self.seed("learner"),
            learner_class=self.learner_class,
        )

    def attach_task(self, task: Task) -> None:
        """See `Probe`."""
        if self.replica is None:
            self.replica = self.make_replica(task)
        self.replica.learner.ppo.sample_share = self.sample_share
        self.replica.attach_task(task, self.seed("agent"))
