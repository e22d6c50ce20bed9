"""Frozen policies: the newest of other runs, copied into the folder of the run in which they act.

So all actors of a run act by the same ones, also on nodes that do not see the other runs.
"""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gmi_drl.config.policies import PolicySection
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.run import checkpoint
from gmi_drl.run.checkpoint import list_checkpoints
from gmi_drl.run.folder import RunFolder

COPY_S = 60.0
"""Deadline for a copy, of a run that trains and removes the checkpoint that is read, again and again."""

LEARNER_FILE = f"{checkpoint.LEARNER_PART}.safetensors"


@dataclass(frozen=True)
class FrozenPolicy:
    """A policy that learns nothing.

    Args:
        name: Of the policy.
        source: The run whose newest policy it is; see `source_of`.
        folder: Its copy in the folder of the run in which it acts.
    """

    name: str
    source: RunFolder
    folder: RunFolder

    def size(self) -> int:
        """Bytes of the copy, without its setup, which is small."""
        return (self.source.newest_checkpoint() / LEARNER_FILE).stat().st_size

    def copy(self) -> None:
        """Copy the setup and the newest learner. An earlier copy is replaced at the end.

        If the copy itself is the source, as that is gone, it stays.

        Raises:
            UsageError: if the newest checkpoint is broken.
            MachineError: if it cannot be copied, or not within `COPY_S`.
        """
        if self.source.path == self.folder.path:
            return
        draft = RunFolder(self.folder.path.with_name(f".{self.name}.draft"))
        try:
            shutil.rmtree(draft.path, ignore_errors=True)
            draft.checkpoints.mkdir(parents=True)
            shutil.copyfile(self.source.layout_file, draft.layout_file)
            shutil.copyfile(self.source.config_file, draft.config_file)
            self._copy_newest(draft.checkpoints)
            shutil.rmtree(self.folder.path, ignore_errors=True)
            draft.path.rename(self.folder.path)
        except OSError as error:
            raise MachineError(
                f"policies.{self.name}.checkpoint: {self.source.path} cannot be copied to {self.folder.path}: "
                f"{error.strerror}"
            ) from None

    def _copy_newest(self, checkpoints: Path) -> None:
        deadline = time.monotonic() + COPY_S
        while not _copy_learner(self.source.newest_checkpoint(), checkpoints):
            time.sleep(0.05)
            if time.monotonic() > deadline:
                why = f"{self.source.path} removes each checkpoint before it is copied, for {COPY_S:g} s"
                raise MachineError(f"policies.{self.name}.checkpoint: {why}: let it save less often, or keep more")


def _copy_learner(saved: Path, checkpoints: Path) -> bool:
    """Copy the learner of a checkpoint. Returns whether it was there: a training may remove it meanwhile."""
    try:
        iteration = checkpoint.read_index(saved, [checkpoint.LEARNER_PART])["iteration"]
        draft = checkpoint.draft(checkpoints, iteration)
        draft.mkdir(exist_ok=True)
        shutil.copyfile(saved / LEARNER_FILE, draft / LEARNER_FILE)
    except (UsageError, OSError):
        if saved.exists():
            raise
        return False
    checkpoint.commit(checkpoints, iteration, checkpoint.NO_TRAINING | {"iteration": iteration}, kept=1)
    return True


def source_of(checkpoint: str, copy: RunFolder) -> RunFolder:
    """The run that a frozen policy is of; the copy of a run that goes on and has one, if that run is gone."""
    run = RunFolder(Path(checkpoint))
    is_there = run.layout_file.exists() and list_checkpoints(run.checkpoints)
    return copy if not is_there and list_checkpoints(copy.checkpoints) else run


def frozen_policies(policies: Mapping[str, PolicySection], folder: RunFolder) -> tuple[FrozenPolicy, ...]:
    """The policies of a configuration that learn nothing, for a run in this folder."""
    return tuple(
        FrozenPolicy(name, source_of(section.checkpoint, folder.frozen(name)), folder.frozen(name))
        for name, section in policies.items()
        if section.checkpoint is not None
    )
