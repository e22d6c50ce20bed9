"""Metrics for Weights & Biases. Needs the extra `[wandb]`, and an account or `WANDB_MODE=offline`."""

import os

from gmi_drl.errors import MachineError
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row
from gmi_drl.run.writers.tags import scalars

try:
    import wandb
except ImportError as error:
    raise MachineError(f"wandb is not installed ({error}): pip install 'gmi-drl[wandb]'") from error

PROJECT = "gmi-drl"
LAST_S = 30.0
"""How long wandb waits for its last uploads, also when the program ends."""


class WeightsAndBiases:
    """Logs each row, and uploads the configuration and the layout.

    The run is called after its folder, in the project `WANDB_PROJECT` or `gmi-drl`. A run that goes on is a new run of
    the same group.
    """

    def __init__(self, folder: RunFolder) -> None:
        _require_login()
        layout, config = folder.read_setup()
        path = folder.path.resolve()
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=path.name,
            group=path.name,
            dir=path,
            config={**config.model_dump(mode="json"), "layout": layout.model_dump(mode="json")},
            settings=wandb.Settings(console="off", finish_timeout=LAST_S, finish_timeout_raises=True),
        )

    def write(self, row: Row) -> None:
        """See `Writer.write`."""
        self._run.log(scalars(row), step=row["iteration"])

    def close(self) -> None:
        """See `Writer.close`."""
        self._run.finish()


def _require_login() -> None:
    """Raise if wandb would ask for a key on the terminal."""
    if wandb.setup().settings.mode == "online" and not wandb.login(prompt=False):
        raise MachineError("wandb has no account: run `wandb login` once, or set WANDB_MODE=offline")
