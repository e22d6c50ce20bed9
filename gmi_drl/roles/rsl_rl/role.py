"""The holistic role with rsl_rl as its learner."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gmi_drl.config.learners import RslRlConfig
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.roles.rsl_rl.class_check import find
from gmi_drl.roles.rsl_rl.group import process_group
from gmi_drl.roles.rsl_rl.replica import RslRlReplica
from gmi_drl.roles.training.holistic import Holistic
from gmi_drl.tasks import Task


class RslRl(Holistic):
    """Trains by rsl_rl's own runner and PPO, together with the other GMIs of its group.

    Reports and checkpoints are those of `Holistic`. With each checkpoint the run folder gets a `model_ITERATION.pt` for
    rsl_rl's own tools.
    """

    replica: RslRlReplica

    def GMI_run(self, resume: str | None = None) -> dict[str, Any]:
        """See `Holistic.GMI_run`."""
        reduction = self.mgr.reduction(self.group)
        with process_group(reduction.group, self.mgr.rendezvous_folder / f"{self.group.name}.rsl_rl", self.mgr.hang_s):
            result = super().GMI_run(resume)
        self.replica.iteration_metrics.close()
        return result

    def seed(self, start: int, purpose: str) -> int:
        """See `Holistic.seed`. The task of rank 0 gets the run's own seed, as in scripts of rsl_rl's users."""
        is_users = purpose == "task" and start == 0 and self.reduction.group.rank == 0
        return self.config.seed if is_users else super().seed(start, purpose)

    def make_replica(self, task: Task, start: int) -> RslRlReplica:
        """See `Holistic.make_replica`."""
        return RslRlReplica(
            task,
            self.config,
            self.reduction,
            sample_share=self.sample_share,
            seed=self.seed(start, "agent"),
            log_dir=self.folder.path,
        )

    def export(self, folder: Path, iteration: int) -> Sequence[Path]:
        """Write rsl_rl's own `model_*.pt`."""
        path = folder / f"model_{iteration}.pt"
        try:
            self.replica.export(path)
        except OSError as error:
            raise MachineError(f"{path} cannot be written: {error.strerror}") from None
        return (path,)

    def divided(self, num_env: int) -> int:
        """Transitions; for networks with a memory environments, since rsl_rl then divides whole sequences."""
        assert isinstance(self.config.learner, RslRlConfig)
        section = self.config.learner.runner
        names = {
            f"learner.runner.{part}.class_name": section[part]["class_name"]
            for part in ("actor", "critic")
            if part in section
        }
        has_memory = any(getattr(find(place, name), "is_recurrent", False) for place, name in names.items())
        if has_memory and num_env < self.config.learner.minibatches:
            wanted = self.config.learner.minibatches
            raise UsageError(f"a GMI has {num_env} environments for {wanted} mini-batches of networks with a memory")
        return num_env if has_memory else super().divided(num_env)
