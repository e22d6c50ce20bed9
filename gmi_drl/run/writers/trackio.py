"""Metrics for Trackio, in its folder of this machine or on Hugging Face. Needs the extra `[trackio]`."""

import os
import sys
from contextlib import redirect_stdout
from typing import Any

from gmi_drl.errors import MachineError
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row
from gmi_drl.run.writers.tags import scalars

try:
    import trackio
except ImportError as error:
    raise MachineError(f"trackio is not installed ({error}): pip install 'gmi-drl[trackio]'") from error

PROJECT = "gmi-drl"


class Trackio:
    """Logs each row. `trackio show --project gmi-drl` shows them.

    The run is called after its folder, in the project `TRACKIO_PROJECT` or `gmi-drl`. A run that goes on is a new run
    of the same group. `TRACKIO_SPACE_ID` and trackio's other variables hold as usual.
    """

    def __init__(self, folder: RunFolder) -> None:
        layout, config = folder.read_setup()
        name = folder.path.resolve().name
        with redirect_stdout(sys.stderr):  # trackio prints there, and stdout is for the result
            self._run: Any = trackio.init(
                project=os.environ.get("TRACKIO_PROJECT", PROJECT),
                name=name,
                group=name,
                config={**config.model_dump(mode="json"), "layout": layout.model_dump(mode="json")},
                embed=False,
                auto_log_cpu=False,
                auto_log_gpu=False,
            )

    def write(self, row: Row) -> None:
        """See `Writer.write`."""
        self._run.log(scalars(row), step=row["iteration"])

    def close(self) -> None:
        """See `Writer.close`."""
        with redirect_stdout(sys.stderr):
            self._run.finish()
