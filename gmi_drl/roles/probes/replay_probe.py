"""The probe of learners from replay."""

from gmi_drl.config.run_config import RunConfig
from gmi_drl.roles.probes.probe import LastingReplicaProbe
from gmi_drl.roles.replay.learner import off_policy_of
from gmi_drl.roles.replay.replica import ReplayReplica
from gmi_drl.tasks import Task


class ReplayProbe(LastingReplicaProbe):
    """Measures the `ReplayReplica` that `Replaying` trains, with updates from the first iterations on."""

    replica: ReplayReplica | None = None

    def make_replica(self, task: Task) -> ReplayReplica:
        """See `LastingReplicaProbe`."""
        return ReplayReplica(
            task.spec,
            without_burn_in(self.config),
            self.mgr.reduction(self.group),
            num_env=task.num_env,
            group_num_env=round(task.num_env / self.sample_share),
            device=self.mgr.device,
            seed=self.seed("learner"),
        )

    def set_share(self, task: Task) -> None:
        """See `LastingReplicaProbe`."""
        assert self.replica is not None
        self.replica.group_num_env = round(task.num_env / self.sample_share)


def without_burn_in(config: RunConfig) -> RunConfig:
    """The configuration with updates from the first step on: they are what takes time."""
    learner = off_policy_of(config)
    replay = learner.replay.model_copy(update={"min_size": 1, "server": None})
    return config.model_copy(update={"learner": learner.model_copy(update={"replay": replay})})
