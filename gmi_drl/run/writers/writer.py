"""What writes the metrics of a run somewhere else."""

from typing import Protocol

from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row


class Writer(Protocol):
    """Takes rows in a thread of its own: it may wait, and whatever it raises ends its work, not the training.

    `scalars` gives the numbers of a row by the tags of rsl_rl, under which TensorBoard and W&B have them.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Begin. The folder has `config.yaml` and `layout.yaml`; a run that goes on is begun again, at its next row."""

    def write(self, row: Row) -> None:
        """Take a row as `metrics.jsonl` has it: an iteration of all GMIs."""

    def close(self) -> None:
        """Finish what there is, after the last row."""
