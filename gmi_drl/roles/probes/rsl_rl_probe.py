"""The probe of rsl_rl: measures iterations of its own runner."""

from gmi_drl.roles.probes.probe import ReplicaProbe
from gmi_drl.roles.rsl_rl.group import process_group
from gmi_drl.roles.rsl_rl.replica import RslRlReplica
from gmi_drl.tasks import Task


class RslRlProbe(ReplicaProbe):
    """Measures the replica of `RslRl`, without its logger. A runner is bound to its environments, so each is new."""

    def GMI_run(self) -> None:
        """See `Probe`."""
        reduction = self.mgr.reduction(self.group)
        with process_group(reduction.group, self.mgr.rendezvous_folder / f"{self.group.name}.rsl_rl", self.mgr.hang_s):
            super().GMI_run()

    def make_replica(self, task: Task) -> RslRlReplica:
        """See `ReplicaProbe`."""
        return RslRlReplica(
            task,
            self.config,
            self.mgr.reduction(self.group),
            sample_share=self.sample_share,
            seed=self.seed("agent"),
            log_dir=None,
        )
