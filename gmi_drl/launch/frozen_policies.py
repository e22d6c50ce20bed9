"""Frozen policies: the newest of other runs, copied into the folder of the run in which they act.

So all actors of a run act by the same ones, also on nodes that do not see the other runs.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gmi_drl.config.policies import PolicySection
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.run import checkpoint
from gmi_drl.run.folder import RunFolder

LEARNER_FILE = f"{checkpoint.LEARNER_PART}.safetensors"


@dataclass(frozen=True)
class FrozenPolicy:
    """A policy that learns nothing.

    Args:
        name: Of the policy.
        source: The run whose newest policy it is.
        folder: Its copy in the folder of the run in which it acts.
    """

    name: str
    source: RunFolder
    folder: RunFolder

    def size(self) -> int:
        """Bytes of the copy, without its setup, which is small."""
        return (self.source.newest_checkpoint() / LEARNER_FILE).stat().st_size

    def copy(self) -> None:
        """Copy the setup and the newest learner. An earlier copy is replaced at the end: it may be the source.

        Raises:
            UsageError: if the newest checkpoint is broken.
            MachineError: if it cannot be copied.
        """
        draft = RunFolder(self.folder.path.with_name(f".{self.name}.draft"))
        try:
            shutil.rmtree(draft.path, ignore_errors=True)
            draft.checkpoints.mkdir(parents=True)
            shutil.copyfile(self.source.layout_file, draft.layout_file)
            shutil.copyfile(self.source.config_file, draft.config_file)
            while not _copy_learner(self.source.newest_checkpoint(), draft.checkpoints):
                pass
            shutil.rmtree(self.folder.path, ignore_errors=True)
            draft.path.rename(self.folder.path)
        except OSError as error:
            raise MachineError(
                f"policies.{self.name}.checkpoint: {self.source.path} cannot be copied to {self.folder.path}: "
                f"{error.strerror}"
            ) from None


def _copy_learner(saved: Path, checkpoints: Path) -> bool:
    """Copy the learner of a checkpoint. Returns whether it was there: a training may remove it meanwhile."""
    try:
        iteration = checkpoint.read_index(saved)["iteration"]
        draft = checkpoint.draft(checkpoints, iteration)
        draft.mkdir(exist_ok=True)
        shutil.copyfile(saved / LEARNER_FILE, draft / LEARNER_FILE)
    except (UsageError, OSError):
        if saved.exists():
            raise
        return False
    checkpoint.commit(checkpoints, iteration, checkpoint.NO_TRAINING | {"iteration": iteration}, kept=1)
    return True


def frozen_policies(policies: Mapping[str, PolicySection], folder: RunFolder) -> tuple[FrozenPolicy, ...]:
    """The policies of a configuration that learn nothing, for a run in this folder."""
    return tuple(
        FrozenPolicy(name, RunFolder(Path(section.checkpoint)), folder.frozen(name))
        for name, section in policies.items()
        if section.checkpoint is not None
    )
