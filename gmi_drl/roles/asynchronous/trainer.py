"""The trainer of asynchronous training: learns from what agents on other GMIs send (section 5.1, Figure 6b)."""

from typing import Any

from gmi_drl.roles.asynchronous.ends import channel_sizes, open_trainer_end
from gmi_drl.roles.asynchronous.replica import TrainingReplica
from gmi_drl.roles.asynchronous.worlds import hear_of_worlds, tell_of_room
from gmi_drl.roles.holistic import Holistic
from gmi_drl.tasks.terms import RewardTerms


class Trainer(Holistic):
    """Updates, reports and saves as a holistic GMI does, without worlds of its own."""

    replica: TrainingReplica

    def GMI_run(self, resume: str | None = None) -> dict[str, Any]:
        """See `Holistic`. An iteration is an update of all trainers, and makes a version of the policy."""
        result = super().GMI_run(resume)
        self.replica.publish()  # where nothing was left to do: agents may wait for a first version
        self.replica.end.end_experience()
        self.replica.end.close()
        return result

    def set_up_replica(self, start: int) -> None:
        """See `Holistic`: the first agent of its pool tells what its worlds are."""
        spec, names = hear_of_worlds(self)
        device = self.mgr.device
        self.terms = RewardTerms(names, device) if names else None
        self.replica = TrainingReplica(spec, self.config, self.reduction, device=device, version=start)
        sizes = channel_sizes(self.mgr, self.config, spec, len(names), self.replica.published)
        agents = [gmi.id for gmi in self.mgr.layout.with_role("agent")]
        self.replica.join(open_trainer_end(self.mgr, sizes), sizes, agents, publishes=self.GMI_id == sizes.trainers[0])
        tell_of_room(self)

    @property
    def steps_per_iteration(self) -> int:
        """See `Holistic`: those that all trainers learn from."""
        sizes = self.replica.sizes
        return self.replica.group.size * sizes.rollouts * sizes.form.horizon * sizes.form.num_env
