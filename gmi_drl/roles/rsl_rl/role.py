"""The holistic role with rsl_rl as its learner."""

from typing import Any

from gmi_drl.errors import MachineError
from gmi_drl.roles.holistic import Holistic
from gmi_drl.roles.rsl_rl.group import process_group
from gmi_drl.roles.rsl_rl.replica import RslRlReplica
from gmi_drl.tasks import Task


class RslRl(Holistic):
    """Trains by rsl_rl's own runner and PPO together with the other GMIs of its group.

    Reports, words and checkpoints are those of `Holistic`; beside each checkpoint the run folder gets a `model_*.pt`,
    named after the iterations done, for rsl_rl's own tools.
    """

    replica: RslRlReplica

    def GMI_run(self, resume: str | None = None) -> dict[str, Any]:
        """See `Holistic.GMI_run`."""
        reduction = self.mgr.reduction(self.group)
        with process_group(reduction, self.mgr.meeting / f"{self.group.name}.rsl_rl", self.mgr.hang_s):
            return super().GMI_run(resume)

    def make_replica(self, task: Task, seed: int) -> RslRlReplica:
        """See `Holistic.make_replica`."""
        share = self.mgr.gmi.num_env / self.mgr.layout.num_env
        return RslRlReplica(task, self.config, self.reduction, share=share, seed=seed, log_dir=self.folder.path)

    def _commit(self, iteration: int, digest: str) -> None:
        super()._commit(iteration, digest)
        path = self.folder.path / f"model_{iteration}.pt"
        try:
            self.replica.export(path)
        except OSError as error:
            raise MachineError(f"{path} cannot be written: {error.strerror}") from None
