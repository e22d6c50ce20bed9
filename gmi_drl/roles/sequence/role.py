"""The role that learns a sequence policy on one GMI."""

from typing import Any

from gmi_drl.roles.sequence.replica import SequenceReplica
from gmi_drl.roles.training.holistic import Holistic
from gmi_drl.tasks import Task


class Sequencing(Holistic):
    """Trains a sequence policy together with the other GMIs of its group, from episodes that lie in their shards."""

    replica: SequenceReplica

    def GMI_run(self, resume: str | None = None) -> dict[str, Any]:
        """See `Holistic`."""
        result = super().GMI_run(resume)
        self.replica.close()
        return result

    def make_replica(self, task: Task, start: int) -> SequenceReplica:
        """See `Holistic`."""
        link = self.mgr.link(self.group)
        replica = SequenceReplica(task.spec, self.config, self.reduction, link, device=self.mgr.device)
        replica.attach_task(task, self.seed(start, "agent"))
        return replica
