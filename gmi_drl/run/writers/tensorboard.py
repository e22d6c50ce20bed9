"""Metrics for TensorBoard: an events file in the run folder, as rsl_rl writes. Needs the extra `[tensorboard]`."""

import os
import platform
import time

from gmi_drl.errors import MachineError
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row
from gmi_drl.run.writers.tags import scalars

try:
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter
except ImportError as error:
    raise MachineError(f"TensorBoard is not installed ({error}): pip install 'gmi-drl[tensorboard]'") from error


class TensorBoard:
    """Writes each row at once. `tensorboard --logdir runs` shows them.

    A run that goes on from a checkpoint gets a new file, whose first event makes TensorBoard drop the rows of earlier
    files from that iteration on.
    """

    def __init__(self, folder: RunFolder) -> None:
        # Files are read in the order of their names.
        name = f"events.out.tfevents.{time.time_ns()}.{platform.node()}.{os.getpid()}"
        self._file = (folder.path / name).open("xb")  # kept open, in case the folder is renamed
        self._records = RecordWriter(self._file)
        self._add(file_version="brain.Event:2")
        self._has_begun = False

    def write(self, row: Row) -> None:
        """See `Writer.write`."""
        step = row["iteration"]
        if not self._has_begun:
            self._add(step=step, session_log=SessionLog(status=SessionLog.START))
            self._has_begun = True
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars(row).items()]
        self._add(step=step, summary=Summary(value=values))

    def close(self) -> None:
        """See `Writer.close`."""
        self._file.close()

    def _add(self, **event: object) -> None:
        self._records.write(Event(wall_time=time.time(), **event).SerializeToString())
        self._file.flush()
