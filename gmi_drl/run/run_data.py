"""What comparisons and reports read of a run: its settings, and its curves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.layout.layout import Layout
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row, read_metrics

LAST_SHARE = 0.1
"""The share of a run's rows whose mean is its final return: single rows are noisy."""

OF_NO_CONFIGURATION = {"seed", "version"}
"""Settings in which seeds of one configuration differ."""


@dataclass(frozen=True)
class RunData:
    """One run, read from its folder.

    Args:
        path: Of the folder.
        layout: As in the folder.
        config: As in the folder.
        rows: Of `metrics.jsonl`, those that tell environment steps, by which curves are drawn.
        state: As in `state.json`.
    """

    path: Path
    layout: Layout
    config: RunConfig
    rows: list[Row]
    state: str

    @property
    def settings(self) -> dict[str, Any]:
        """All settings by their names (`learner.gamma`), and what the layout decides (`layout.num_env`)."""
        layout = {
            "task": self.layout.task,
            "template": self.layout.template,
            "gmis": len(self.layout.gmis),
            "num_env": self.layout.num_env,
            "backend": self.layout.backend,
        }
        return flat({"layout": layout} | self.config.model_dump(mode="json", exclude_none=True))

    @property
    def returns(self) -> list[tuple[float, float]]:
        """Environment steps and mean return of the rows that have one; of the evaluations if there are any."""
        name = (
            "eval_return_mean" if any(row.get("eval_return_mean") is not None for row in self.rows) else "return_mean"
        )
        return [(row["env_steps"], row[name]) for row in self.rows if row.get(name) is not None]

    @property
    def final_return(self) -> float | None:
        """Mean return of the last tenth; None if no episode has ended."""
        values = [value for _, value in self.returns]
        return mean(values[-max(1, round(LAST_SHARE * len(values))) :]) if values else None

    @property
    def steps_per_second(self) -> float | None:
        """Median over the rows; None without any."""
        speeds = [row["steps_per_second"] for row in self.rows if row.get("steps_per_second") is not None]
        return median(speeds) if speeds else None


def read_run(path: Path) -> RunData:
    """Read a run, which may still be going on.

    Raises:
        UsageError: if the folder is no run, or has no row of metrics yet.
    """
    folder = RunFolder(path)
    layout, config = folder.read_setup()
    rows = [row for row in read_metrics(folder.metrics_file) if row.get("env_steps") is not None]
    if not rows:
        raise UsageError(f"{path} has no row of metrics yet: wait for its first iteration")
    return RunData(path, layout, config, rows, str(folder.read_state()["state"]))


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with names joined by dots."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def groups_of(runs: list[RunData]) -> list[list[RunData]]:
    """Runs that differ by their seeds alone belong together, in the order of the first of each."""
    groups: dict[str, list[RunData]] = {}
    for run in runs:
        key = {name: value for name, value in run.settings.items() if name not in OF_NO_CONFIGURATION}
        groups.setdefault(repr(sorted(key.items())), []).append(run)
    return list(groups.values())


def differences(groups: list[list[RunData]]) -> dict[str, list[Any]]:
    """Settings that are not equal in all groups, with the value of each group; None where one has none."""
    each = [group[0].settings for group in groups]
    names = dict.fromkeys(name for settings in each for name in settings if name not in OF_NO_CONFIGURATION)
    values = {name: [settings.get(name) for settings in each] for name in names}
    return {name: row for name, row in values.items() if any(value != row[0] for value in row)}


def per_seed(group: list[RunData], of: Callable[[RunData], float | None]) -> list[float]:
    """A number of each run that has it."""
    return [value for run in group if (value := of(run)) is not None]
