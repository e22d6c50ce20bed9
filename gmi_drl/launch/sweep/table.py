"""The results of a sweep: one line per combination of settings, best first."""

from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from gmi_drl.errors import UsageError
from gmi_drl.launch.sweep.sweep_file import Sweep, Trial
from gmi_drl.launch.sweep.trial_process import Ended, read_ended
from gmi_drl.run.run_data import read_run


@dataclass(frozen=True)
class Line:
    """The seeds of one combination.

    Args:
        settings: Of the combination.
        returns: Final returns of the trainings that are done, by seed; see `RunData.final_return`.
        done: How many trials have ended well.
        early: How many were stopped early.
        failed: How many have failed.
        early_returns: Last returns of those that were stopped early, by seed.
        total: How many there are.
        best: Folder of the training with the best final return.
    """

    settings: dict[str, str]
    returns: dict[int, float]
    done: int
    early: int
    failed: int
    early_returns: dict[int, float]
    total: int
    best: str | None

    @property
    def median(self) -> float | None:
        """Over the seeds; None if none is done."""
        return median(self.returns.values()) if self.returns else None

    @property
    def document(self) -> dict[str, Any]:
        """All facts, for JSON."""
        return {**asdict(self), "median": self.median}


def results(folder: Path, sweep: Sweep) -> list[Line]:
    """The lines of a sweep that may still go on, by their medians; those without come last."""
    combinations: dict[tuple[tuple[str, str], ...], list[Trial]] = {}
    for trial in sweep.trials:
        combinations.setdefault(tuple(trial.settings.items()), []).append(trial)
    lines = [_line(folder, trials, is_ours=sweep.command is None) for trials in combinations.values()]
    return sorted(lines, key=lambda line: -float("inf") if line.median is None else line.median, reverse=True)


def _line(folder: Path, trials: list[Trial], is_ours: bool) -> Line:
    ended = {trial.name: read_ended(folder, trial) for trial in trials}
    good = [trial for trial in trials if _is_good(ended[trial.name])]
    stopped = [trial for trial in trials if (how := ended[trial.name]) is not None and how.early]
    returns, early_returns = (_finals(folder, some) if is_ours else {} for some in (good, stopped))
    best = max(returns, key=lambda seed: returns[seed], default=None)
    return Line(
        settings=trials[0].settings,
        returns=returns,
        done=len(good),
        early=len(stopped),
        failed=sum(outcome is not None for outcome in ended.values()) - len(good) - len(stopped),
        early_returns=early_returns,
        total=len(trials),
        best=next((str(folder / trial.name) for trial in trials if trial.seed == best), None),
    )


def _is_good(ended: Ended | None) -> bool:
    return ended is not None and ended.exit_code == 0 and not ended.early


def _finals(folder: Path, trials: list[Trial]) -> dict[int, float]:
    return {trial.seed: value for trial in trials if (value := _final(folder, trial)) is not None}


def _final(folder: Path, trial: Trial) -> float | None:
    try:
        return read_run(folder / trial.name).final_return
    except UsageError:  # someone has removed it
        return None
