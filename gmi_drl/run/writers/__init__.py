"""What writes the metrics of a run: always `metrics.jsonl`, and beside it the writers that the configuration names."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from gmi_drl.config.writers import WRITERS
from gmi_drl.registry import class_at
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import MetricsFile, Row
from gmi_drl.run.writers.background import Background
from gmi_drl.run.writers.writer import Writer

__all__ = ["Writers"]

LAST_S = 30.0
"""How long the last uploads are waited for."""

LAST_AFTER_ERROR_S = 5.0


class Writers:
    """`metrics.jsonl`, whose failure ends the run as it is the record, and others, which are dropped if they fail.

    The end of a `with` block waits for their last uploads.

    Args:
        folder: Of the run.
        names: The others.
        tell: Takes a warning for each that is dropped: it could not start, it failed, or it did not end in time.
    """

    def __init__(self, folder: RunFolder, names: Sequence[str], tell: Callable[[str], None]) -> None:
        self._folder, self._names, self._tell = folder, names, tell
        self._metrics: MetricsFile | None = None
        self._others: list[Background] = []

    def __enter__(self) -> Self:
        return self

    def start(self) -> None:
        """Open all, once the folder has the layout and the configuration."""
        self._metrics = MetricsFile(self._folder.metrics_file)
        self._others = [Background(name, partial(_open, name, self._folder)) for name in self._names]

    def write(self, row: Row) -> None:
        """Write one row.

        Raises:
            MachineError: if the disk does not take it.
        """
        assert self._metrics is not None
        self._metrics.write(row)
        self._drop_failed()
        for other in self._others:
            other.write(row)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._metrics is not None:
            self._metrics.close()
        for other in self._others:
            other.end()
        deadline = time.monotonic() + (LAST_S if error is None else LAST_AFTER_ERROR_S)
        for other in self._others:
            other.join(deadline - time.monotonic())
        self._drop_failed()

    def _drop_failed(self) -> None:
        for other in self._others:
            if other.failure is not None:
                self._tell(f"the writer {other.name} {other.failure}; the run goes on without it")
        self._others = [other for other in self._others if other.failure is None]


def _open(name: str, folder: RunFolder) -> Writer:
    writer: Writer = class_at(WRITERS.find(name).writer)(folder)
    return writer
