"""Checkpoints of a run, written and read by its GMIs together."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from gmi_drl.algo.flat_parameters import tensor_digest
from gmi_drl.comm.group import Group
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import GmiError
from gmi_drl.layout.layout import Layout
from gmi_drl.roles.training.replica import Replica
from gmi_drl.run import checkpoint
from gmi_drl.run.checkpoint import LEARNER_PART
from gmi_drl.run.checkpoint_store import CheckpointStore

NO_RETURNS: Mapping[str, float] = MappingProxyType({})

LEAST_PERIOD = 100
"""The least time between checkpoints by time, divided by the time that writing one takes."""


class Checkpointer:
    """Saves and restores a run. Each GMI has a part of its own; rank 0 writes the learner, which all have alike.

    Every GMI of the group must make the same calls, in the same order.

    Args:
        store: Of the run.
        layout: Of the run. Environments are restored only on the layout on which they were saved.
        gmi_id: Of this GMI.
        group: The GMIs that train together.
        config: Of the run: how often to save, how many checkpoints to keep, the learning rate.
        export: Called on rank 0 with the run's folder and the iteration when a checkpoint is complete. Writes files for
            other tools, and returns their paths.
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
        self._saved_s, self._writing_s = time.monotonic(), 0.0
        self._here = len(layout.part_on(layout.device_of(gmi_id).node)[1])

    def is_due(self, iteration: int) -> bool:
        """Whether to save after this iteration."""
        return iteration % self.config.checkpoint_every == 0 or iteration == self.config.iterations

    def is_late(self) -> bool:
        """Whether so much time has passed since the last checkpoint that one is due. Differs between GMIs."""
        every_s = self.config.checkpoint_every_s
        return every_s is not None and self._since_s() >= max(every_s, LEAST_PERIOD * self._writing_s)

    def _since_s(self) -> float:
        return time.monotonic() - self._saved_s

    def prove_disk(self, replica: Replica, iteration: int, env_steps: int, *, keep: bool, growth: int = 0) -> None:
        """Write a whole checkpoint before anything is trained, to find out now whether the disk takes it.

        Args:
            replica: Of this GMI.
            iteration: The last one that is done.
            env_steps: Control steps of all environments so far.
            keep: Whether it stays, as the first one of a new run does.
            growth: Bytes by which this GMI's part may become larger.

        Raises:
            MachineError: if it cannot be written, or the disk has no room for all checkpoints that will be kept.
        """
        began_s = time.monotonic()
        digest = self._write_parts(replica, iteration)
        self.store.require_own_room(self._here * (self._written_bytes + growth))
        of_all = self.group.gather(torch.tensor([float(growth)], dtype=torch.float64)).sum()
        if self.group.rank == 0:
            more = 1 if self.config.eval_every is None else 2  # one is written before another goes; the best one stays
            self.store.require_room(iteration, self.config.checkpoints_kept + more, int(of_all))
            if keep:
                self._commit(iteration, env_steps, digest)
                self._export_files(iteration)
            self.store.drop_drafts()
        self.group.barrier()
        self._note_saved(began_s)

    def save(
        self,
        replica: Replica,
        iteration: int,
        env_steps: int,
        *,
        exports: bool = True,
        returns: Mapping[str, float] = NO_RETURNS,
    ) -> None:
        """Save a checkpoint.

        Args:
            replica: Of this GMI.
            iteration: The last one that is done.
            env_steps: Control steps of all environments so far.
            exports: Whether files for other tools are written, too, which nobody removes.
            returns: Evaluations: `checkpoint.EVALUATED`, if this iteration has one, and `checkpoint.BEST`.

        Raises:
            GmiError: if the learners of the GMIs differ.
            MachineError: if it cannot be written.
        """
        began_s = time.monotonic()
        digest = self._write_parts(replica, iteration)
        if self.group.rank == 0:
            self._commit(iteration, env_steps, digest, returns)
            if exports:
                self._export_files(iteration)
        self.group.barrier()
        self._note_saved(began_s)

    def _note_saved(self, began_s: float) -> None:
        self._saved_s = time.monotonic()
        self._writing_s = self._saved_s - began_s

    def restore(self, replica: Replica, saved: Path, index: dict[str, Any]) -> None:
        """Continue from a checkpoint: on the same layout bit-identically, on another one with new environments.

        The adapted learning rate is restored, unless the user has changed the configured one since.
        """
        replica.load_learner_state(checkpoint.read_part(saved, LEARNER_PART, index))
        if index["learning_rate"] != self.config.learner.learning_rate:
            replica.set_learning_rate(self.config.learner.learning_rate)
        if index["layout"] == self.layout.digest:
            replica.load_local_state(checkpoint.read_part(saved, self.part, index))

    def _write_parts(self, replica: Replica, iteration: int) -> str:
        """Write this GMI's parts of a draft, when all learners are equal. Returns the digest of the learner."""
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
        """Write and store a part. Returns its size in bytes."""
        file = checkpoint.write_part(draft, name, tensors)
        size = file.stat().st_size
        self.store.keep(file)
        return size

    def _check_replicas(self, digest: str, iteration: int) -> None:
        """Raise GmiError if the learners differ: training would hide such a fault."""
        digests = self.group.gather(torch.tensor([float(int(digest[:12], 16))], dtype=torch.float64))
        if (digests != digests[0]).any():
            raise GmiError(f"iteration {iteration}: the learners of the GMIs differ, which is a bug: please report it")

    def _commit(self, iteration: int, env_steps: int, digest: str, returns: Mapping[str, float] = NO_RETURNS) -> None:
        facts = {
            "env_steps": env_steps,
            "layout": self.layout.digest,
            "num_env": self.layout.num_env,
            "learner": digest,
            "learning_rate": self.config.learner.learning_rate,
            **returns,
        }
        self.store.commit(iteration, facts, self.config.checkpoints_kept)

    def _export_files(self, iteration: int) -> None:
        for file in self._export(self.store.checkpoints.resolve().parent, iteration):
            self.store.keep(file)
