"""Checkpoints of a run, written and read by its GMIs together."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gmi_drl.algo.flat_parameters import tensor_digest
from gmi_drl.comm.group import Group
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import GmiError
from gmi_drl.layout.layout import Layout
from gmi_drl.roles.training.replica import Replica
from gmi_drl.run import checkpoint
from gmi_drl.run.checkpoint_store import CheckpointStore

LEARNER_PART = "learner"


class Checkpointer:
    """Each GMI writes and reads its own part, rank 0 the learner, which must be the same everywhere.

    Every GMI of the group makes the same calls, in the same order.

    Args:
        store: Of the run.
        layout: Of the run. On another one worlds are not restored.
        gmi_id: Whose worlds are saved here.
        group: Who hold the same learner.
        config: Of the run: how often, how many are kept, the learning rate that was asked for.
        export: Called on rank 0 with the run's folder and the iteration once a checkpoint is complete: writes files
            that other tools read, and returns which.
    """

    def __init__(
        self,
        store: CheckpointStore,
        layout: Layout,
        gmi_id: int,
        group: Group,
        config: RunConfig,
        *,
        export: Callable[[Path, int], Sequence[Path]],
    ) -> None:
        self.store, self.layout, self.group, self.config = store, layout, group, config
        self.part, self._export = f"gmi-{gmi_id}", export
        self._here = len(layout.part_on(layout.device_of(gmi_id).node)[1])

    def is_due(self, iteration: int) -> bool:
        """Whether a checkpoint belongs after this iteration."""
        return iteration % self.config.checkpoint_every == 0 or iteration == self.config.iterations

    def prove_disk(self, replica: Replica, iteration: int, env_steps: int, *, keep: bool) -> None:
        """Write a whole checkpoint before minutes are spent, and `keep` it, as a new run does with its first.

        Raises:
            MachineError: if the disk does not take it, or has no room for all that will be kept.
        """
        digest = self._write_parts(replica, iteration)
        self.store.require_own_room(self._here * self._written_bytes)
        if self.group.rank == 0:
            self.store.require_room(iteration, self.config.checkpoints_kept + 1)
            if keep:
                self._commit(iteration, env_steps, digest)
            self.store.drop_drafts()
        self.group.barrier()

    def save(self, replica: Replica, iteration: int, env_steps: int) -> None:
        """Save where the run stands.

        Raises:
            GmiError: if the GMIs do not hold the same learner.
            MachineError: if the disk does not take it.
        """
        digest = self._write_parts(replica, iteration)
        if self.group.rank == 0:
            self._commit(iteration, env_steps, digest)
        self.group.barrier()

    def restore(self, replica: Replica, saved: Path, index: dict[str, Any]) -> None:
        """Continue from a checkpoint: on the same layout bit-identically, on another one with fresh worlds.

        The learning rate goes on as it was adapted, unless the configuration has been given another one since.
        """
        replica.load_learner_state(checkpoint.read_part(saved, LEARNER_PART))
        if index["learning_rate"] != self.config.learner.learning_rate:
            replica.set_learning_rate(self.config.learner.learning_rate)
        if index["layout"] == self.layout.digest:
            replica.load_local_state(checkpoint.read_part(saved, self.part))

    def _write_parts(self, replica: Replica, iteration: int) -> str:
        """All parts of a draft. Returns the digest of what all replicas must hold alike."""
        learner = replica.learner_state()
        digest = tensor_digest(*learner.values())
        self._check_replicas(digest, iteration)
        draft = checkpoint.draft(self.store.checkpoints, iteration)
        self._written_bytes = self._keep(draft, self.part, replica.local_state())
        if self.group.rank == 0:
            self._written_bytes += self._keep(draft, LEARNER_PART, learner)
        self.group.barrier()
        return digest

    def _keep(self, draft: Path, name: str, tensors: Mapping[str, torch.Tensor]) -> int:
        """Write a part, and have it kept. Returns its bytes."""
        file = checkpoint.write_part(draft, name, tensors)
        size = file.stat().st_size
        self.store.keep(file)
        return size

    def _check_replicas(self, digest: str, iteration: int) -> None:
        """Replicas that have parted are a fault that training would hide."""
        digests = self.group.gather(torch.tensor([float(int(digest[:12], 16))], dtype=torch.float64))
        if (digests != digests[0]).any():
            raise GmiError(
                f"iteration {iteration}: the GMIs no longer hold the same learner (digests differ): please report this"
            )

    def _commit(self, iteration: int, env_steps: int, digest: str) -> None:
        facts = {
            "env_steps": env_steps,
            "layout": self.layout.digest,
            "num_env": self.layout.num_env,
            "learner": digest,
            "learning_rate": self.config.learner.learning_rate,
        }
        self.store.commit(iteration, facts, self.config.checkpoints_kept)
        for file in self._export(self.store.checkpoints.resolve().parent, iteration):
            self.store.keep(file)
