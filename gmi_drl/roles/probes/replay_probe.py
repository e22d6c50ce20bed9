"""The probe of learners from replay."""

from gmi_drl.config.run_config import RunConfig
from gmi_drl.roles.probes.probe import ReplicaProbe
from gmi_drl.roles.replay.learner import off_policy_of
from gmi_drl.roles.replay.replica import ReplayReplica
from gmi_drl.tasks import Task


class ReplayProbe(ReplicaProbe):
    """Measures the `ReplayReplica` that `Replaying` trains, with updates from the first iterations on.

    The learner stays when the number of environments changes, so that all numbers share one start-up.
    """

    replica: ReplayReplica | None = None

    @property
    def warm_up_iterations(self) -> int:
        """See `Probe`."""
        assert self.replica is not None
        return self.replica.warm_up_iterations

    def detach_task(self) -> None:
        """See `Probe`."""
        if self.replica is not None:
            self.replica.detach_task()

    def make_replica(self, task: Task) -> ReplayReplica:
        """See `ReplicaProbe`; it has no task yet."""
        return ReplayReplica(
            task.spec,
            without_burn_in(self.config),
            self.mgr.reduction(self.group),
            num_env=task.num_env,
            group_num_env=round(task.num_env / self.sample_share),
            device=self.mgr.device,
            seed=self.seed("learner"),
        )

    def attach_task(self, task: Task) -> None:
        """See `Probe`."""
        if self.replica is None:
            self.replica = self.make_replica(task)
        self.replica.group_num_env = round(task.num_env / self.sample_share)
        self.replica.attach_task(task, self.seed("agent"))


def without_burn_in(config: RunConfig) -> RunConfig:
    """The configuration with updates from the first step on: they are what takes time."""
    learner = off_policy_of(config)
    replay = learner.replay.model_copy(update={"min_size": 1})
    return config.model_copy(update={"learner": learner.model_copy(update={"replay": replay})})
