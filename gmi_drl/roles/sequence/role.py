"""The role that learns a sequence policy on one GMI."""

from gmi_drl.roles.sequence.replica import SequenceReplica
from gmi_drl.roles.training.holistic import Holistic
from gmi_drl.tasks import Task


class Sequencing(Holistic):
    """Trains a sequence policy together with the other GMIs of its group, each from episodes of its own."""

    replica: SequenceReplica

    def make_replica(self, task: Task, start: int) -> SequenceReplica:
        """See `Holistic`."""
        seed = self.seed(start, "learner")
        replica = SequenceReplica(task.spec, self.config, self.reduction, device=self.mgr.device, seed=seed)
        replica.attach_task(task, self.seed(start, "agent"))
        return replica
