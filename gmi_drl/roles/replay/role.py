"""The role of learners from replay: simulator, agent, ring and trainer on one GMI."""

from pathlib import Path
from typing import Any

from gmi_drl.roles.replay.replica import ReplayReplica
from gmi_drl.roles.replay.ring_state import deal_anew, saved_parts
from gmi_drl.roles.training.holistic import Holistic
from gmi_drl.tasks import Task


class Replaying(Holistic):
    """Trains DQN or SAC together with the other GMIs of its group, each with a ring of its own environments' steps."""

    replica: ReplayReplica

    def make_replica(self, task: Task, start: int) -> ReplayReplica:
        """See `Holistic`."""
        members = [self.mgr.layout.gmis[gmi_id] for gmi_id in self.group.members]
        replica = ReplayReplica(
            task.spec,
            self.config,
            self.reduction,
            num_env=task.num_env,
            group_num_env=sum(self.num_env_of(gmi) for gmi in members),
            device=self.mgr.device,
            seed=self.seed(start, "learner"),
        )
        replica.attach_task(task, self.seed(start, "agent"))
        return replica

    def restore(self, saved: Path, index: dict[str, Any]) -> None:
        """See `Holistic`. On another layout of one host the rings of the checkpoint are dealt out anew."""
        super().restore(saved, index)
        layout = self.mgr.layout
        if index["layout"] == layout.digest or len(layout.nodes) > 1:
            return
        before = [gmi_id for gmi_id in self.group.members if gmi_id < self.GMI_id]
        first = sum(self.num_env_of(layout.gmis[gmi_id]) for gmi_id in before)
        deal_anew(self.replica.ring, saved_parts(saved, index), first)

    def growth_bytes(self) -> int:
        """See `Holistic`: the room that is left in the ring, if that is saved."""
        return self.replica.growth_bytes()
