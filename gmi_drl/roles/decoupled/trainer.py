"""The trainer of asynchronous training: learns from the experience of agents on other GMIs (section 5.1, Figure 6b)."""

from typing import Any

from gmi_drl.comm.channels import join_as_trainer
from gmi_drl.layout.pools import pool_of
from gmi_drl.roles.decoupled.a3c_learner import A3CLearner, make_a3c
from gmi_drl.roles.decoupled.channel_learner import ChannelLearner
from gmi_drl.roles.decoupled.channel_replica import ChannelReplica
from gmi_drl.roles.decoupled.channel_setup import channel_sizes
from gmi_drl.roles.decoupled.startup import announce_memory, receive_task_info
from gmi_drl.roles.decoupled.update_stats import UpdateExchange
from gmi_drl.roles.training.holistic import Holistic
from gmi_drl.tasks.terms import RewardTerms
from gmi_drl.workload import TaskSpec


class Trainer(Holistic):
    """Updates, reports and saves as a holistic GMI does, without environments of its own."""

    replica: ChannelReplica

    def GMI_run(self, resume: str | None = None) -> dict[str, Any]:
        """See `Holistic`. An iteration is one update of all trainers, which makes one version of the policy."""
        result = super().GMI_run(resume)
        self.replica.publish()  # if no iteration was left: agents may wait for a first version
        self.replica.end.end_experience()
        self.replica.end.close()
        return result

    def set_up_replica(self, start: int) -> None:
        """See `Holistic`; the sizes of the task come from the first agent of the pool."""
        mgr, device = self.mgr, self.mgr.device
        info = receive_task_info(mgr, pool_of(mgr.layout, self.GMI_id).agents[0])
        spec, names = info.spec, info.terms
        self.terms = RewardTerms(names, device) if names else None
        learner = self.make_learner(spec, start)
        sizes = channel_sizes(mgr, self.config, spec, len(names), learner.published)
        agents = [gmi.id for gmi in mgr.layout.with_role("simulator")]
        end = join_as_trainer(
            *mgr.channel_memory, self.GMI_id, sizes, mgr.hang_s, device, mgr.agents_are_restarted, mgr.keepalives
        )
        self.replica = ChannelReplica(
            learner,
            end,
            UpdateExchange(self.reduction.group, agents, spec.frame_skip),
            version=start,
            last=self.config.iterations,
            publishes=self.GMI_id == sizes.trainers[0],
        )
        announce_memory(mgr, info)

    def growth_bytes(self) -> int:
        """See `Holistic`."""
        return self.replica.learner.growth_bytes()

    def make_learner(self, spec: TaskSpec, start: int) -> ChannelLearner[Any]:
        """The learner for updates from `start` on, the same on all trainers."""
        return A3CLearner(make_a3c(spec, self.config, self.reduction, self.mgr.device))
