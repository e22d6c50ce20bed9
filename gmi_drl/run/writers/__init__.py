"""Writers of the metrics of a run: `metrics.jsonl`, and those that the configuration names."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from gmi_drl.config.writers import WRITERS
from gmi_drl.errors import MachineError
from gmi_drl.registry import class_at
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import MetricsFile, Row
from gmi_drl.run.writers.background import Background
from gmi_drl.run.writers.writer import Writer

__all__ = ["Writers"]

LAST_S = 30.0
"""Seconds to wait for the last uploads."""

LAST_AFTER_ERROR_S = 5.0


class Writers:
    """Writes rows to `metrics.jsonl` and to other writers. The end of the `with` block waits for their last uploads.

    A failure of `metrics.jsonl` ends the run; another writer that fails is dropped.

    Args:
        folder: Of the run.
        names: Of the other writers.
        warn: Called with a text for each writer that is dropped: it did not start, it failed, or did not end in time.
    """

    def __init__(self, folder: RunFolder, names: Sequence[str], warn: Callable[[str], None]) -> None:
        self._folder, self._names, self._warn = folder, names, warn
        self._metrics: MetricsFile | None = None
        self._others: list[Background] = []

    def __enter__(self) -> Self:
        return self

    def start(self) -> None:
        """Open all writers. The folder must have its layout and configuration."""
        self._metrics = MetricsFile(self._folder.metrics_file)
        self._others = [Background(name, partial(_open, name, self._folder)) for name in self._names]

    def write(self, row: Row) -> None:
        """Write one row.

        Raises:
            MachineError: if `metrics.jsonl` cannot be written.
        """
        assert self._metrics is not None
        self._metrics.write(row)
        self._drop_failed()
        for other in self._others:
            other.write(row)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for other in self._others:
            other.end()
        deadline = time.monotonic() + (LAST_S if error is None else LAST_AFTER_ERROR_S)
        for other in self._others:
            other.join(deadline - time.monotonic())
        self._drop_failed()
        try:
            if self._metrics is not None:
                self._metrics.close()
        except MachineError:
            if error is None:  # else that one says more
                raise

    def _drop_failed(self) -> None:
        for other in self._others:
            if other.failure is not None:
                self._warn(f"the writer {other.name} {other.failure}; the run goes on without it")
        self._others = [other for other in self._others if other.failure is None]


def _open(name: str, folder: RunFolder) -> Writer:
    writer: Writer = class_at(WRITERS.find(name).writer)(folder)
    return writer
