"""The median rule of early stopping (Golovin et al. 2017, Google Vizier, section 3.2.2)."""

from pathlib import Path
from statistics import mean, median

from gmi_drl.launch.sweep.sweep_file import Sweep, Trial
from gmi_drl.launch.sweep.trial_process import read_ended
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import last_row, read_metrics

FEWEST = 3
"""Finished trials that a median needs."""

GRACE = 0.2
"""The share of the longest finished trial before which none is stopped."""


class MedianRule:
    """Stops a trial whose best return is below the median of the finished trials' mean returns until the same step.

    Args:
        folder: Of the sweep.
        sweep: What it runs.
    """

    def __init__(self, folder: Path, sweep: Sweep) -> None:
        self.folder, self.sweep = folder, sweep
        self._finished: dict[str, list[tuple[float, float]]] = {}

    def is_hopeless(self, trial: Trial) -> bool:
        """Whether a running trial is to be stopped."""
        steps = last_row(self._metrics(trial)).get("env_steps") or 0
        curves = [curve for curve in self._curves() if curve]
        if len(curves) < FEWEST or steps < GRACE * max(curve[-1][0] for curve in curves):
            return False
        own = [value for step, value in self._read(trial) if step <= steps]
        means = [mean(values) for curve in curves if (values := [value for step, value in curve if step <= steps])]
        return bool(own) and len(means) >= FEWEST and max(own) < median(means)

    def _curves(self) -> list[list[tuple[float, float]]]:
        """Steps and returns of the trials that have ended well, each read once."""
        for trial in self.sweep.trials:
            if trial.name not in self._finished:
                ended = read_ended(self.folder, trial)
                if ended is not None and ended.exit_code == 0 and not ended.early:
                    self._finished[trial.name] = self._read(trial)
        return list(self._finished.values())

    def _read(self, trial: Trial) -> list[tuple[float, float]]:
        rows = read_metrics(self._metrics(trial))
        return [(row["env_steps"], row["return_mean"]) for row in rows if row.get("return_mean") is not None]

    def _metrics(self, trial: Trial) -> Path:
        return RunFolder(self.folder / trial.name).metrics_file
