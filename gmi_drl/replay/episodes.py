"""A `.replay` folder: whole episodes in a mapped file, and an index that says where each of them lies."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.checkpoint import STATE, check_digest, flattened, nested, read_index, read_tensors, write_files
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.storage.file import FileStorage
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.observations import dtype_of

ROWS = "rows.replay"
KIND = "episodes"


class EpisodeSet:
    """The episodes that `import_episodes` has written. Their rows are mapped, not loaded: processes share one memory.

    An episode lies in one block of its storage, so that it can be an item of a table.

    Args:
        folder: That `gmi-drl replay import` wrote. What it has is compared with its digest, once.

    Attributes:
        storage: Of the rows.
        first: Place of the first step of each episode, int64 `[n]`.
        lengths: Steps of each, int64 `[n]`.
        returns: Sum of the rewards of each, float64 `[n]`.
        knows_last: Whether the row behind its last step has the observation that followed, bool `[n]`.
        moments: Of fields of float32: count, means and M2 over all steps, float64 `[1 + 2 K]`.

    Raises:
        UsageError: if it is no such folder, or a file of it was altered.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        index = read_index(self.folder, {STATE, ROWS})
        check_digest(self.folder, ROWS, index)
        facts, tensors = index.facts, read_tensors(self.folder, STATE, index)
        try:
            steps, longest = int(facts["asked"]), int(facts["longest"])
            signature, state = Signature.from_json(str(facts["signature"])), nested(tensors)
            self.first, self.lengths, self.returns = state["first"], state["lengths"], state["returns"]
            self.knows_last: Tensor = state["knows_last"]
            self.moments: dict[str, Tensor] = state.get("moments", {})
        except (KeyError, ValueError) as error:
            raise UsageError(f"{self.folder} is no folder of episodes: {error}") from None
        self.storage = FileStorage(signature, steps, longest=longest, path=self.folder / ROWS, is_writable=False)
        parts = (self.first, self.lengths, self.returns, self.knows_last)
        is_whole = len(self.first) > 0 and all(part.shape == (len(self.first),) for part in parts)
        if (
            not is_whole
            or int(self.first.min()) < 0
            or int((self.first + self.lengths + self.knows_last).max()) > self.storage.steps
        ):
            raise UsageError(f"{self.folder}: its episodes do not lie within its {self.storage.steps} rows")

    @property
    def signature(self) -> Signature:
        """Of a step."""
        return self.storage.signature

    def __len__(self) -> int:
        return len(self.first)

    @property
    def steps(self) -> int:
        """Of all episodes."""
        return int(self.lengths.sum())

    def require(self, spec: TaskSpec) -> None:
        """Raise unless the episodes have the observations and actions of a task.

        Raises:
            UsageError: with both sides.
        """
        seen = spec.observation
        for wanted in (Field("obs", seen.shape, dtype_of(seen)), Field("action", (spec.action.size,))):
            field = self.signature.by_name.get(wanted.name)
            if field is None or (field.shape, field.dtype) != (wanted.shape, wanted.dtype):
                text = f"{self.folder} has {field or f'no {wanted.name}'}, {spec.name} has {wanted}"
                raise UsageError(f"{text}: give import_episodes the fields as the task has them")
        choices = self.storage.rows.fields["action"][:, spec.action.numbers :]
        for place, size in enumerate(spec.action.categories):
            is_choice = torch.isin(choices[:, place], torch.arange(size, dtype=choices.dtype))
            if not bool(is_choice.all()):
                text = f"{float(choices[~is_choice, place][0]):g} as choice {place} of an action"
                raise UsageError(f"{self.folder} has {text}, {spec.name} has 0 to {size - 1}")

    def windows(self, episodes: Tensor, starts: Tensor, length: int, out: Rows | None = None) -> Rows:
        """Copy a stretch of each of these episodes.

        Args:
            episodes: Their numbers, int64 `[B]`.
            starts: First steps within them, int64 `[B]`.
            length: Steps; past the end of an episode there are zeros.
            out: Rows of an earlier call, which are written over.

        Returns:
            Rows `[B, length]`.
        """
        left = (self.lengths[episodes] - starts).clamp(max=length)
        return self.storage.gather(self.first[episodes] + starts, left, longest=length, out=out)


def write_episodes_index(folder: Path, storage: FileStorage, asked: int, state: Mapping[str, Any]) -> None:
    """Write the index beside the rows: then the folder is complete.

    Args:
        folder: In which the storage has its file, `ROWS`.
        storage: With all rows.
        asked: The least number of steps that it was made with.
        state: What `EpisodeSet` reads: `first`, `lengths`, `returns`, `knows_last`, `moments`.

    Raises:
        OSError: if it cannot be written.
    """
    facts = {
        "kind": KIND,
        "signature": storage.signature.to_json(),
        "asked": asked,
        "longest": storage.longest,
        "episodes": len(state["first"]),
        "steps": storage.steps,
        "block_steps": storage.blocks.block_steps,
    }
    tensors, numbers = flattened(state)
    write_files(folder, facts, tensors, numbers, (ROWS,))
