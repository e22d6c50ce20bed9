"""The interface of writers of metrics."""

from typing import Protocol

from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row


class Writer(Protocol):
    """Writes rows, in a thread of its own: it may wait, and an error ends the writer, not the training.

    `scalars` gives the numbers of a row by the tags that TensorBoard and W&B show.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Open. The folder has `config.yaml` and `layout.yaml`. A run that goes on opens a new writer."""

    def write(self, row: Row) -> None:
        """Write a row as in `metrics.jsonl`: one iteration of all GMIs."""

    def close(self) -> None:
        """Finish writing, after the last row."""
